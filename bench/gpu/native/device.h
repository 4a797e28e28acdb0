/*
 * What the programs of bench/gpu share: the CUDA driver, found at run time, a context on the first GPU, and a kernel that
 * says itself when it ran. They need a C compiler and no CUDA toolkit: the kernel is PTX, which the driver translates.
 *
 * The emulated GPU knows fikit_stamp by its name, and takes its duration from the first parameter.
 */
#ifndef FIKIT_BENCH_GPU_DEVICE_H
#define FIKIT_BENCH_GPU_DEVICE_H

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long long device_pointer;

#ifndef MORE_DRIVER_FUNCTIONS /* a program's own */
#define MORE_DRIVER_FUNCTIONS(F)
#endif
#define DRIVER_FUNCTIONS(F)                                                                                            \
  MORE_DRIVER_FUNCTIONS(F)                                                                                             \
  F(cuInit, unsigned)                                                                                                  \
  F(cuDeviceGetName, char *, int, int)                                                                                 \
  F(cuDeviceGetAttribute, int *, int, int)                                                                             \
  F(cuDriverGetVersion, int *)                                                                                         \
  F(cuCtxCreate_v2, void **, unsigned, int)                                                                            \
  F(cuCtxSynchronize, void)                                                                                            \
  F(cuModuleLoadData, void **, const void *)                                                                           \
  F(cuModuleGetFunction, void **, void *, const char *)                                                                \
  F(cuMemAlloc_v2, device_pointer *, size_t)                                                                           \
  F(cuMemcpyDtoH_v2, void *, device_pointer, size_t)                                                                   \
  F(cuMemHostRegister_v2, void *, size_t, unsigned)                                                                    \
  F(cuMemHostUnregister, void *)                                                                                       \
  F(cuMemHostGetDevicePointer_v2, device_pointer *, void *, unsigned)                                                  \
  F(cuStreamCreate, void **, unsigned)                                                                                 \
  F(cuStreamSynchronize, void *)                                                                                       \
  F(cuStreamWriteValue32_v2, void *, device_pointer, uint32_t, unsigned)                                               \
  F(cuEventCreate, void **, unsigned)                                                                                  \
  F(cuEventRecord, void *, void *)                                                                                     \
  F(cuEventQuery, void *)                                                                                              \
  F(cuEventElapsedTime, float *, void *, void *)                                                                       \
  F(cuLaunchKernel, void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,     \
    void **)

#define DECLARE(name, ...) static int (*name)(__VA_ARGS__);
DRIVER_FUNCTIONS(DECLARE)
#undef DECLARE

enum {
  MULTIPROCESSOR_COUNT = 16, /* CUdevice_attribute */
  COMPUTE_CAPABILITY_MAJOR = 75,
  COMPUTE_CAPABILITY_MINOR = 76,
  CAN_USE_64_BIT_STREAM_MEM_OPS = 122,
  DEVICEMAP = 2, /* CU_MEMHOSTREGISTER_DEVICEMAP */
  NON_BLOCKING = 1,
  TIMED = 0,
  UNTIMED = 2, /* CU_EVENT_DISABLE_TIMING */
  BLOCK_THREADS = 1024,
  STAMP_WORDS = 4, /* begin, end, and what keeps the loop from being optimised away */
};

/* The first thread of the grid says %globaltimer before and after. The first warp of each block works: `rounds` turns of a
 * loop, or, with no rounds, until `ns` have passed; the others only take room, so that how long a turn takes depends on
 * nobody who shares the multiprocessor. The barriers keep the readings where they are. */
static const char kernels[] =
    ".visible .entry fikit_stamp(.param .u64 ns, .param .u64 stamps, .param .u64 rounds)\n{\n"
    " .reg .pred %more, %idle, %timed, %other;\n .reg .b32 %x, %thread, %block;\n"
    " .reg .b64 %begin, %end, %until, %left, %out;\n"
    " ld.param.u64 %until, [ns];\n ld.param.u64 %left, [rounds];\n ld.param.u64 %out, [stamps];\n"
    " cvta.to.global.u64 %out, %out;\n mov.u32 %thread, %tid.x;\n mov.u32 %block, %ctaid.x;\n mov.u32 %x, %thread;\n"
    " mov.u64 %begin, %globaltimer;\n bar.sync 0;\n setp.ge.u32 %idle, %thread, 32;\n @%idle bra over;\n"
    " add.u64 %until, %until, %begin;\n setp.eq.u64 %timed, %left, 0;\n @%timed bra wait;\n"
    "turn:\n mad.lo.u32 %x, %x, 1664525, 1013904223;\n sub.u64 %left, %left, 1;\n setp.ne.u64 %more, %left, 0;\n"
    " @%more bra turn;\n bra over;\n"
    "wait:\n mov.u64 %end, %globaltimer;\n setp.lt.u64 %more, %end, %until;\n @%more bra wait;\n"
    "over:\n bar.sync 0;\n mov.u64 %end, %globaltimer;\n or.b32 %thread, %thread, %block;\n"
    " setp.ne.u32 %other, %thread, 0;\n @%other ret;\n"
    " st.global.u64 [%out], %begin;\n st.global.u64 [%out+8], %end;\n st.global.u32 [%out+16], %x;\n ret;\n}\n"
    ".visible .entry fikit_null()\n{\n ret;\n}\n"
    /* Adds 1 to a word in every `stride` bytes. */
    ".visible .entry fikit_touch(.param .u64 at, .param .u64 words, .param .u64 stride)\n{\n"
    " .reg .pred %over;\n .reg .b32 %x, %thread, %block, %threads, %blocks;\n"
    " .reg .b64 %begin, %i, %step, %count, %bytes, %word;\n"
    " ld.param.u64 %begin, [at];\n ld.param.u64 %count, [words];\n ld.param.u64 %bytes, [stride];\n"
    " cvta.to.global.u64 %begin, %begin;\n mov.u32 %thread, %tid.x;\n mov.u32 %block, %ctaid.x;\n"
    " mov.u32 %threads, %ntid.x;\n mov.u32 %blocks, %nctaid.x;\n cvt.u64.u32 %i, %thread;\n"
    " mad.wide.u32 %i, %block, %threads, %i;\n mul.wide.u32 %step, %threads, %blocks;\n"
    "next:\n setp.ge.u64 %over, %i, %count;\n @%over ret;\n mad.lo.u64 %word, %i, %bytes, %begin;\n"
    " ld.global.u32 %x, [%word];\n add.u32 %x, %x, 1;\n st.global.u32 [%word], %x;\n add.u64 %i, %i, %step;\n"
    " bra next;\n}\n";

static inline void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: couldn't %s: %s\n", program_invocation_short_name, what, why);
  exit(1);
}

static inline void check(int result, const char *call) {
  char text[32];
  if (result == 0)
    return;
  snprintf(text, sizeof text, "driver error %d", result);
  fail(call, text);
}
#define DO(call) check(call, "run " #call)

static inline int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void *needed(void *memory) {
  if (!memory)
    fail("go on", "no memory");
  return memory;
}

struct gpu {
  char name[256];
  int driver_version, multiprocessors, major, minor;
  void *stream, *module, *stamp, *null;
  device_pointer stamps;
  int capacity;
  double rounds_per_ns;
};

static struct gpu gpu;

static inline void launch(void *stream, unsigned blocks, uint64_t ns, uint64_t rounds, int slot) {
  device_pointer out = gpu.stamps + (device_pointer)slot * STAMP_WORDS * sizeof(uint64_t);
  void *parameters[] = {&ns, &out, &rounds};
  check(cuLaunchKernel(gpu.stamp, blocks, 1, 1, BLOCK_THREADS, 1, 1, 0, stream, parameters, NULL), "launch a kernel");
}

/* A kernel that has as much to do as `ns` of it alone, however long it takes beside others. */
static inline void launch_work(void *stream, unsigned blocks, int64_t ns, int slot) {
  double rounds = (double)ns * gpu.rounds_per_ns;
  launch(stream, blocks, (uint64_t)ns, rounds < 1 ? 1 : (uint64_t)rounds, slot);
}

static inline void launch_null(void *stream) {
  check(cuLaunchKernel(gpu.null, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL), "launch a kernel");
}

static inline void read_stamps(int64_t *stamps, int first, int count) {
  enum { BYTES = STAMP_WORDS * sizeof(uint64_t) };
  int64_t *raw = needed(malloc((size_t)count * BYTES + 1));
  check(cuMemcpyDtoH_v2(raw, gpu.stamps + (device_pointer)first * BYTES, (size_t)count * BYTES), "read the stamps");
  for (int i = 0; i < count; i++) {
    stamps[2 * i] = raw[STAMP_WORDS * i];
    stamps[2 * i + 1] = raw[STAMP_WORDS * i + 1];
  }
  free(raw);
}

/* How many turns of the loop take a nanosecond, on clocks that have come up; the fastest of several knows best. */
static inline void calibrate(void) {
  enum { ROUNDS = 100000, NS = 1000000, TRIES = 20 };
  int64_t until_ns = now_ns() + 200 * 1000000;
  double best = 0;
  for (int i = 0; i < TRIES || now_ns() < until_ns; i++) {
    int64_t stamps[2];
    launch(gpu.stream, 1, NS, ROUNDS, 0);
    check(cuStreamSynchronize(gpu.stream), "wait for the kernel");
    read_stamps(stamps, 0, 1);
    if (stamps[1] <= stamps[0])
      fail("use %globaltimer", "it stands still");
    double rate = ROUNDS / (double)(stamps[1] - stamps[0]);
    best = rate > best ? rate : best;
  }
  gpu.rounds_per_ns = best;
}

static inline void load_kernels(void) {
  static const char *const targets[] = {".version 7.0\n.target sm_70\n", ".version 7.0\n.target sm_75\n",
                                        ".version 8.0\n.target sm_90\n", ".version 6.0\n.target sm_50\n"};
  char text[sizeof kernels + 128];
  void *module = NULL;
  int result = -1;
  for (size_t i = 0; i < sizeof targets / sizeof *targets && result != 0; i++) {
    snprintf(text, sizeof text, "%s.address_size 64\n%s", targets[i], kernels);
    result = cuModuleLoadData(&module, text);
  }
  check(result, "have the kernels translated");
  gpu.module = module;
  check(cuModuleGetFunction(&gpu.stamp, module, "fikit_stamp"), "find fikit_stamp");
  check(cuModuleGetFunction(&gpu.null, module, "fikit_null"), "find fikit_null");
}

/* A context with a stream, room for `capacity` stamps, and kernels of a known length. */
static inline void open_gpu(int capacity) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
  if (!library)
    fail("find the CUDA driver", dlerror());
#define FIND(name, ...)                                                                                                \
  name = (int (*)(__VA_ARGS__))dlsym(library, #name);                                                                  \
  if (!name)                                                                                                           \
    fail("find " #name, "this driver lacks it");
  DRIVER_FUNCTIONS(FIND)
#undef FIND
  DO(cuInit(0));
  DO(cuDeviceGetName(gpu.name, sizeof gpu.name, 0));
  DO(cuDriverGetVersion(&gpu.driver_version));
  DO(cuDeviceGetAttribute(&gpu.multiprocessors, MULTIPROCESSOR_COUNT, 0));
  DO(cuDeviceGetAttribute(&gpu.major, COMPUTE_CAPABILITY_MAJOR, 0));
  DO(cuDeviceGetAttribute(&gpu.minor, COMPUTE_CAPABILITY_MINOR, 0));
  DO(cuCtxCreate_v2(&context, 0, 0));
  DO(cuStreamCreate(&gpu.stream, NON_BLOCKING));
  load_kernels();
  gpu.capacity = capacity;
  check(cuMemAlloc_v2(&gpu.stamps, (size_t)capacity * STAMP_WORDS * sizeof(uint64_t)), "get memory for the stamps");
  calibrate();
}

static inline void print_gpu(void) {
  printf("{\"device\": \"%s\", \"driver_version\": %d, \"multiprocessors\": %d, \"compute_capability\": \"%d.%d\", "
         "\"rounds_per_ns\": %.6f",
         gpu.name, gpu.driver_version, gpu.multiprocessors, gpu.major, gpu.minor, gpu.rounds_per_ns);
}

static inline void print_numbers(const char *name, const int64_t *numbers, int count) {
  printf(", \"%s\": [", name);
  for (int i = 0; i < count; i++)
    printf("%s%" PRId64, i ? "," : "", numbers[i]);
  printf("]");
}

#endif
