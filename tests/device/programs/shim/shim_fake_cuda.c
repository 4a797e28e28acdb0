/*
 * A stand-in libcuda.so.1 for the shim's tests: no device, no time. It counts every call by name, answers what a test
 * told it to, and completes work only when told to (fake_hold). Not an emulator: emulator/ is.
 */
#include <stdio.h>
#include <stdlib.h>

#include "shim_fake_cuda.h"

enum { MOST_CALLS = 1024 }; /* more than the driver has names */

/* ---- control, for tests only */

static struct {
  char name[64];
  unsigned count, delay_us;
  int fail;
} calls[MOST_CALLS];
static int driver_version = 12080, memory_operations;
HIDDEN int holding, capturing;

/* Registered memory belongs to the context in which that was done, and ends with it. */
static void *registered_in, *registered;

/* Writes of streams that stand still, in order. */
static struct {
  uint32_t *word, value;
} writes[1024];
static unsigned writes_begun, writes_done;

static void write_all(void) {
  for (; writes_done < writes_begun; writes_done++)
    __atomic_store_n(writes[writes_done % 1024].word, writes[writes_done % 1024].value, __ATOMIC_RELEASE);
}

HIDDEN int called(const char *name) {
  for (unsigned i = 0; i < MOST_CALLS; i++) {
    if (!calls[i].name[0])
      strcpy(calls[i].name, name);
    if (strcmp(calls[i].name, name) == 0) {
      __atomic_fetch_add(&calls[i].count, 1, __ATOMIC_RELAXED);
      if (calls[i].delay_us)
        usleep(calls[i].delay_us);
      return calls[i].fail;
    }
  }
  return 0;
}

/* For the stubs of names that this file does not define (test_shim_every_call.py). */
API int fake_called(const char *name) {
  return called(name);
}

API unsigned fake_calls(const char *name) {
  for (unsigned i = 0; i < MOST_CALLS; i++)
    if (strcmp(calls[i].name, name) == 0)
      return calls[i].count;
  return 0;
}

/* From now on `name` returns `result`. */
API void fake_fail(const char *name, int result) {
  called(name);
  for (unsigned i = 0; i < MOST_CALLS; i++)
    if (strcmp(calls[i].name, name) == 0) {
      calls[i].fail = result;
      calls[i].count--;
    }
}

/* From now on `name` takes so long. */
API void fake_delay(const char *name, unsigned us) {
  fake_fail(name, 0);
  for (unsigned i = 0; i < MOST_CALLS; i++)
    if (strcmp(calls[i].name, name) == 0)
      calls[i].delay_us = us;
}

/* 1: events and streams are not complete. */
API void fake_hold(int hold) {
  __atomic_store_n(&holding, hold, __ATOMIC_SEQ_CST);
  if (!hold)
    write_all();
}

/* 1: streams can write to memory of the host that was registered. */
API void fake_memory_operations(int can) {
  memory_operations = can;
}

API void fake_version(int version) {
  driver_version = version;
}

/* ---- device and context */

HIDDEN _Thread_local void *current;

static char pipes_at_init[256]; /* of the newest cuInit */

/* FAKE_CUDA_INIT: what each cuInit answers, as "805 0"; the last answer holds for all further ones. None: 0. */
static CUresult init_result(void) {
  static const char *rest;
  static CUresult result;
  if (!rest)
    rest = getenv("FAKE_CUDA_INIT");
  if (rest && *rest)
    result = (CUresult)strtol(rest, (char **)&rest, 10);
  return result;
}

API CUresult cuInit(unsigned flags) {
  const char *pipes = getenv("CUDA_MPS_PIPE_DIRECTORY");
  (void)flags;
  COUNTED;
  snprintf(pipes_at_init, sizeof pipes_at_init, "%s", pipes ? pipes : "");
  free(strdup("what one allocator gives, the same must take back"));
  return init_result();
}
API const char *fake_pipes_at_init(void) { /* where a driver would look for MPS */
  return pipes_at_init;
}
API CUresult cuDriverGetVersion(int *version) {
  *version = driver_version;
  return 0;
}
API CUresult cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return 0;
}
API CUresult cuDeviceGetUuid(void *uuid, int device) {
  memset(uuid, 0x40 + device, 16);
  return 0;
}
API CUresult cuDeviceGetName(char *name, int bytes, int device) {
  snprintf(name, (size_t)bytes, "Stand-in %d (Emulated)", device);
  return 0;
}
API CUresult cuDeviceTotalMem_v2(size_t *bytes, int device) {
  (void)device;
  *bytes = 1 << 30;
  return 0;
}
API CUresult cuCtxCreate_v2(void **ctx, unsigned flags, int device) {
  (void)flags;
  COUNTED;
  current = *ctx = (void *)(uintptr_t)(0x100000 + 0x1000 * device);
  return 0;
}
API CUresult cuCtxDestroy_v2(void *ctx) {
  end_streams_of(ctx, 0);
  COUNTED;
  end_streams_of(ctx, 1);
  if (current == ctx)
    current = NULL;
  if (registered_in == ctx)
    registered = registered_in = NULL;
  writes_done = writes_begun;
  return 0;
}
/* Green contexts: shim_fake_streams.c. Their handles are those of their contexts. */
API CUresult cuCtxFromGreenCtx(void **ctx, void *green) {
  *ctx = green;
  return 0;
}
API CUresult cuGreenCtxDestroy(void *green) {
  return cuCtxDestroy_v2(green);
}
API CUresult cuDevicePrimaryCtxRetain(void **ctx, int device) {
  COUNTED;
  *ctx = (void *)(uintptr_t)(0x100000 + 0x1000 * device);
  return 0;
}
API CUresult cuDevicePrimaryCtxRelease_v2(int device) {
  (void)device;
  COUNTED;
  return 0;
}
API CUresult cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
  (void)device;
  *flags = 0;
  *active = 0;
  return 0;
}
API CUresult cuCtxSetCurrent(void *ctx) {
  current = ctx;
  return 0;
}
API CUresult cuCtxPushCurrent_v2(void *ctx) {
  current = ctx;
  return 0;
}
API CUresult cuCtxPopCurrent_v2(void **ctx) {
  *ctx = current;
  return 0;
}
API CUresult cuCtxGetCurrent(void **ctx) {
  *ctx = current;
  return 0;
}
API CUresult cuCtxGetDevice(int *device) {
  if (!current)
    return INVALID_CONTEXT;
  *device = (int)(((uintptr_t)current - 0x100000) / 0x1000);
  return 0;
}
API CUresult cuCtxSynchronize(void) {
  COUNTED;
  return 0;
}

/* ---- modules: a handle is a small number, so that tests see handles reused after an unload */

static const char *function_names[64];
static unsigned functions;

API CUresult cuModuleLoadData(void **module, const void *image) {
  (void)image;
  COUNTED;
  *module = (void *)(uintptr_t)0x200000;
  return 0;
}
API CUresult cuModuleUnload(void *module) {
  (void)module;
  COUNTED;
  functions = 0;
  return 0;
}
API CUresult cuModuleGetFunction(void **function, void *module, const char *name) {
  (void)module;
  COUNTED;
  function_names[functions % 64] = strdup(name);
  *function = (void *)(uintptr_t)(0x300000 + 0x100 * functions++);
  return 0;
}
static int registers = 32;
/* Of the functions that are asked about from now on. */
API void fake_needs(int count) {
  registers = count;
}
API CUresult cuFuncGetAttribute(int *value, int attribute, void *function) {
  (void)function;
  COUNTED;
  *value = attribute == 4 ? registers : 0;
  return 0;
}
API CUresult cuKernelGetAttribute(int *value, int attribute, void *kernel, int device) {
  (void)device;
  return cuFuncGetAttribute(value, attribute, kernel);
}
API CUresult cuLibraryLoadData(void **library, const void *code, void *a, void *b, unsigned c, void *d, void *e,
                               unsigned f) {
  (void)code, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
  *library = (void *)(uintptr_t)0x210000;
  return 0;
}
API CUresult cuLibraryGetKernel(void **kernel, void *library, const char *name) {
  (void)library, (void)name;
  *kernel = (void *)(uintptr_t)0x390000;
  return 0;
}

/* ---- launches */

#define KERNEL_ARGS                                                                                                \
  void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, \
      void **params
#define IGNORE_KERNEL_ARGS \
  (void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream, (void)params

API CUresult cuLaunchKernel(KERNEL_ARGS, void **extra) {
  IGNORE_KERNEL_ARGS, (void)extra;
  COUNTED;
  return 0;
}
API CUresult cuLaunchKernel_ptsz(KERNEL_ARGS, void **extra) {
  IGNORE_KERNEL_ARGS, (void)extra;
  COUNTED;
  return 0;
}
API CUresult cuLaunchCooperativeKernel(KERNEL_ARGS) {
  IGNORE_KERNEL_ARGS;
  COUNTED;
  return 0;
}
API CUresult cuLaunchKernelEx(const void *config, void *f, void **params, void **extra) {
  (void)config, (void)f, (void)params, (void)extra;
  COUNTED;
  return 0;
}
API CUresult cuLaunchGrid(void *f, int width, int height) {
  (void)f, (void)width, (void)height;
  COUNTED;
  return 0;
}
API CUresult cuFuncSetBlockShape(void *f, int x, int y, int z) {
  (void)f, (void)x, (void)y, (void)z;
  return 0;
}
API CUresult cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags) {
  (void)graph, (void)flags;
  *exec = (void *)(uintptr_t)0x400000;
  return 0;
}
API CUresult cuGraphGetNodes(void *graph, void **nodes, size_t *count) {
  (void)graph, (void)nodes;
  *count = 3;
  return 0;
}
static int graph_kind; /* what its nodes are: 0 empty, 1 kernels, 2 kernels that were launched cooperatively */

API void fake_graph(int kind) {
  graph_kind = kind;
}
API CUresult cuGraphNodeGetType(void *node, int *type) {
  (void)node;
  *type = graph_kind ? 0 : 5;
  return 0;
}
API CUresult cuGraphGetEdges(void *graph, void **from, void **to, size_t *count) {
  (void)graph, (void)from, (void)to;
  *count = 0;
  return 0;
}
API CUresult cuGraphKernelNodeGetParams_v2(void *node, void *params) {
  (void)node, (void)params;
  return 0;
}
API CUresult cuGraphKernelNodeGetAttribute(void *node, int attribute, int *value) {
  (void)node;
  *value = attribute == 2 && graph_kind == 2;
  return 0;
}
API CUresult cuGraphLaunch(void *exec, void *stream) {
  (void)exec, (void)stream;
  COUNTED;
  return 0;
}

API CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  if (attribute == 133) /* a client of MPS: there is a server in every directory but "outside" */
    *value = pipes_at_init[0] && !strstr(pipes_at_init, "/outside") && !getenv("FAKE_CUDA_NO_SERVER");
  else
    *value = attribute == 89 || (attribute == 122 && memory_operations); /* 89: memory is fetched by page faults */
  return 0;
}

API CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) {
  (void)bytes, (void)flags;
  COUNTED;
  if (registered)
    return ALREADY_REGISTERED;
  registered = pointer;
  registered_in = current;
  return 0;
}
static char page_locked[64]; /* whoever asks gets the same, however much he wants */
API CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  (void)bytes, (void)flags;
  COUNTED;
  if (!pointer)
    return INVALID_VALUE;
  *pointer = page_locked;
  return 0;
}
API CUresult cuMemFreeHost(void *pointer) {
  (void)pointer;
  COUNTED;
  return 0;
}
/* The device is always as far as it can be, and waits for nothing. */
API CUresult cuStreamWaitValue32_v2(void *stream, uintptr_t address, uint32_t value, unsigned flags) {
  (void)stream, (void)address, (void)value, (void)flags;
  COUNTED;
  return 0;
}
API CUresult cuMemHostGetDevicePointer_v2(uintptr_t *address, void *pointer, unsigned flags) {
  (void)flags;
  COUNTED;
  if (pointer == page_locked) {
    *address = (uintptr_t)pointer;
    return 0;
  }
  if (pointer != registered || current != registered_in)
    return INVALID_VALUE;
  *address = (uintptr_t)pointer;
  return 0;
}
API CUresult cuStreamWriteValue32_v2(void *stream, uintptr_t address, uint32_t value, unsigned flags) {
  (void)stream, (void)flags;
  COUNTED;
  writes[writes_begun % 1024].word = (uint32_t *)address;
  writes[writes_begun++ % 1024].value = value;
  if (!__atomic_load_n(&holding, __ATOMIC_SEQ_CST))
    write_all();
  return 0;
}

API CUresult cuMemcpyDtoH_v2(void *to, uintptr_t from, size_t bytes) {
  (void)to, (void)from, (void)bytes;
  COUNTED;
  return 0;
}

API CUresult cuMemcpyHtoDAsync_v2(uintptr_t to, const void *from, size_t bytes, void *stream) {
  (void)to, (void)from, (void)bytes, (void)stream;
  COUNTED;
  return 0;
}

/* An argument in a vector register, and one that only the driver knows how to read. */
API CUresult cuParamSetf(void *f, int offset, float value) {
  (void)f;
  return (int)(value * 2) + offset;
}

/* ---- look-up */

struct row {
  const char *name;
  int version, per_thread;
  void *function;
};

API CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags);
API CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status);

static const struct row rows[] = {
    {"cuGetProcAddress", 11030, 0, cuGetProcAddress}, {"cuGetProcAddress", 12000, 0, cuGetProcAddress_v2},
    {"cuInit", 2000, 0, cuInit},                      {"cuLaunchKernel", 4000, 0, cuLaunchKernel},
    {"cuLaunchKernel", 7000, 1, cuLaunchKernel_ptsz}, {"cuCtxSynchronize", 2000, 0, cuCtxSynchronize},
    {"cuMemcpyDtoH", 3020, 0, cuMemcpyDtoH_v2},       {"cuGraphInstantiate", 12000, 0, cuGraphInstantiateWithFlags},
};

static void *answer(const char *name, int version, int per_thread) {
  void *best = NULL;
  for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (strcmp(rows[i].name, name) == 0 && rows[i].version <= version && rows[i].per_thread == per_thread)
      best = rows[i].function;
  return !best && per_thread ? answer(name, version, 0) : best;
}

API CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
  COUNTED;
  void *found = answer(name, version, (flags & 2) != 0);
  if (!found)
    return NOT_FOUND;
  *function = found;
  return 0;
}

API CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
  COUNTED;
  void *found = answer(name, version, (flags & 2) != 0);
  if (status)
    *status = found ? 0 : 1;
  if (!found)
    return NOT_FOUND;
  *function = found;
  return 0;
}
