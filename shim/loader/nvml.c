#include "loader/nvml.h"
#include "loader/loader.h"
#include "memory/memory.h"

#include <stdlib.h>
#include <string.h>

typedef int nvml_result;
typedef struct nvml_device_st *nvml_device;

struct nvml_memory {
  unsigned long long total, free, used;
};

struct nvml_memory_v2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};

enum { NVML_SUCCESS = 0, UUID_TEXT = 96 };

/* NVML's own functions, once a program has looked ours up. */
static nvml_result (*_Atomic get_uuid)(nvml_device device, char *text, unsigned bytes);
static nvml_result (*_Atomic get_memory)(nvml_device device, struct nvml_memory *memory);
static nvml_result (*_Atomic get_memory_v2)(nvml_device device, struct nvml_memory_v2 *memory);

static int digit(char c) {
  const char *digits = "0123456789abcdef", *found = c ? strchr(digits, c) : NULL;
  return found ? (int)(found - digits) : -1;
}

/* "GPU-8-4-4-4-12" as 16 bytes. A MIG instance has a UUID of its own, which CUDA gives too. */
static bool parse_uuid(const char *text, uint8_t uuid[16]) {
  int digits = 0;
  const char *c = strchr(text, '-');
  if (!c)
    return false;
  for (c++; *c; c++) {
    if (*c == '-')
      continue;
    int value = digit(*c);
    if (value < 0 || digits == 32)
      return false;
    uuid[digits / 2] = (uint8_t)(digits % 2 ? uuid[digits / 2] | value : value << 4);
    digits++;
  }
  return digits == 32;
}

/* The GPU as this process uses it through CUDA, or else as its job may; NULL when it is not managed. */
static struct fikit_device *device_of(nvml_device handle, uint64_t total) {
  char text[UUID_TEXT];
  struct fikit_hello hello = {.head = {FIKIT_MSG_HELLO, sizeof hello},
                              .version = FIKIT_PROTOCOL_OLDEST,
                              .purpose = FIKIT_PURPOSE_WATCH,
                              .gpu_memory_bytes = total};
  if (!get_uuid || get_uuid(handle, text, sizeof text) != NVML_SUCCESS || !parse_uuid(text, hello.gpu_uuid))
    return NULL;
  struct fikit_device *device = fikit_device_by_uuid(hello.gpu_uuid);
  return device ? device : fikit_device_watch(&hello);
}

/* What the job may have of it, in the place of what the GPU has. False: as the driver says. */
static bool narrow(nvml_device handle, unsigned long long *total, unsigned long long *free_bytes, unsigned long long *used) {
  uint64_t of_job = *total, free_of_job = *free_bytes;
  if (!fikit_memory_narrow(device_of(handle, *total), &free_of_job, &of_job))
    return false;
  *total = of_job;
  *free_bytes = free_of_job;
  *used = of_job - free_of_job;
  return true;
}

static nvml_result memory_info(nvml_device handle, struct nvml_memory *memory) {
  const nvml_result result = get_memory(handle, memory);
  if (result == NVML_SUCCESS)
    narrow(handle, &memory->total, &memory->free, &memory->used);
  return result;
}

static nvml_result memory_info_v2(nvml_device handle, struct nvml_memory_v2 *memory) {
  const nvml_result result = get_memory_v2(handle, memory);
  if (result == NVML_SUCCESS && narrow(handle, &memory->total, &memory->free, &memory->used))
    memory->reserved = 0;
  return result;
}

static const char prefix[] = "nvmlDeviceGetMemoryInfo";

bool fikit_nvml_handles(const char *name) {
  return strncmp(name, prefix, sizeof prefix - 1) == 0 &&
         (name[sizeof prefix - 1] == 0 || strcmp(name + sizeof prefix - 1, "_v2") == 0);
}

static bool is_nvml(const void *function) {
  const char *object = function ? fikit_object_of(function) : NULL, *slash = object ? strrchr(object, '/') : NULL;
  return object && strncmp(slash ? slash + 1 : object, "libnvidia-ml.so", 15) == 0;
}

/* A second copy, whose devices are none of the first one's. One that was closed and opened again is no second. */
static bool another_copy(const void *function) {
  const void *first = (const void *)get_uuid;
  return is_nvml(first) && !fikit_same_object(first, function);
}

void *fikit_nvml_lookup(void *handle, const char *name) {
  void *found = fikit_next_dlsym(handle, name);
  if (!is_nvml(found) || fikit_in_other_namespace(handle) || another_copy(found))
    return found;
  get_uuid = (nvml_result(*)(nvml_device, char *, unsigned))fikit_lookup(handle, "nvmlDeviceGetUUID");
  if (name[sizeof prefix - 1] == 0) {
    get_memory = (nvml_result(*)(nvml_device, struct nvml_memory *))found;
    return (void *)memory_info;
  }
  get_memory_v2 = (nvml_result(*)(nvml_device, struct nvml_memory_v2 *))found;
  return (void *)memory_info_v2;
}
