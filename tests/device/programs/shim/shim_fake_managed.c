/* Managed memory of the stand-in driver, beside shim_fake_cuda.c, and moves of it in one form alone: that of CUDA 8, or (NEWER_FORM) that of
 * CUDA 12.2 and newer. What was moved last is told by fake_moved. */
#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

typedef struct {
  int type, id;
} location;

static size_t moved_bytes;
static int moved_to;

static int moved(size_t bytes, int to) {
  moved_bytes = bytes;
  moved_to = to;
  return 0;
}

/* -1: to the host; else the ordinal of the device. */
API int fake_moved_to(void) {
  return moved_to;
}

API size_t fake_moved_bytes(void) {
  return moved_bytes;
}

API int cuDeviceGetCount(int *count) {
  *count = 1;
  return 0;
}

API int cuMemAllocManaged(uintptr_t *pointer, size_t bytes, unsigned flags) {
  static uintptr_t next = 0x7000000000;
  (void)flags;
  *pointer = next;
  next += bytes;
  return 0;
}

API int cuMemAdvise(uintptr_t pointer, size_t bytes, int advice, int device) {
  (void)pointer, (void)bytes, (void)advice, (void)device;
  return 0;
}

#ifdef NEWER_FORM
API int cuMemPrefetchAsync_v2(uintptr_t pointer, size_t bytes, location to, unsigned flags, void *stream) {
  (void)pointer, (void)stream;
  return flags ? 1 : moved(bytes, to.type == 1 ? to.id : -1);
}
#else
API int cuMemPrefetchAsync(uintptr_t pointer, size_t bytes, int device, void *stream) {
  (void)pointer, (void)stream;
  return moved(bytes, device);
}
#endif
