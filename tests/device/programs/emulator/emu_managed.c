/* More managed memory than the emulated GPU of 64 MiB has. Usage: emu_managed CASE [MIB]; exit code 0 when all is as it should be.
 *   holds_managed MIB   fills so much, says "holding", and compares every byte when it may go on
 *   holds_plain MIB     allocates so much, says "holding" or the error's number, and waits */
#include "emu_api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct {
  int type, id;
} Location;

CUresult cuMemAllocManaged(CUdeviceptr *, size_t, unsigned), cuMemPrefetchAsync(CUdeviceptr, size_t, CUdevice, CUstream);
CUresult cuMemPrefetchAsync_v2(CUdeviceptr, size_t, Location, unsigned, CUstream);
CUresult cuMemcpyDtoD_v2(CUdeviceptr, CUdeviceptr, size_t);

enum { MIB = 1 << 20, DEVICE = 64, ON_DEVICE = 1, ON_HOST = 2 };

static CUdeviceptr managed(size_t mib) {
  CUdeviceptr memory;
  OK(cuMemAllocManaged(&memory, mib * MIB, 1));
  return memory;
}

static size_t used_mib(void) {
  size_t free_bytes, total;
  OK(cuMemGetInfo_v2(&free_bytes, &total));
  return (total - free_bytes) / MIB;
}

static uint32_t word(uint32_t seed, size_t i) { return seed * 2654435761u + (uint32_t)i; }

static void fill(CUdeviceptr to, size_t mib, uint32_t seed) {
  uint32_t *words = malloc(mib * MIB);
  for (size_t i = 0; i < mib * MIB / 4; i++) words[i] = word(seed, i);
  OK(cuMemcpyHtoD_v2(to, words, mib * MIB));
  free(words);
}

static void compare(CUdeviceptr from, size_t mib, uint32_t seed) {
  uint32_t *words = malloc(mib * MIB);
  OK(cuMemcpyDtoH_v2(words, from, mib * MIB));
  for (size_t i = 0; i < mib * MIB / 4; i++) CHECK(words[i] == word(seed, i));
  free(words);
}

/* 96 MiB on 64: what goes out comes back as it was, also into another buffer. */
static void contents(void) {
  CUdeviceptr buffers[12];
  for (uint32_t i = 0; i < 12; i++) fill(buffers[i] = managed(8), 8, i);
  CHECK(used_mib() == DEVICE);
  for (uint32_t i = 0; i < 6; i++) OK(cuMemcpyDtoD_v2(buffers[i], buffers[11 - i], 8 * MIB));
  for (uint32_t i = 0; i < 12; i++) compare(buffers[i], 8, i < 6 ? 11 - i : i);
  for (int i = 0; i < 12; i++) OK(cuMemFree_v2(buffers[i]));
  CHECK(used_mib() == 0);
}

static void info(void) {
  CUdeviceptr memory = managed(96);
  CHECK(used_mib() == 0);
  OK(cuMemsetD8_v2(memory, 1, 10 * MIB + 1));
  CHECK(used_mib() == 12); /* the chunks that it used */
  OK(cuMemFree_v2(memory));
}

static void prefetch(void) {
  CUdeviceptr memory = managed(32);
  OK(cuMemPrefetchAsync(memory, 8 * MIB, 0, NULL));
  OK(cuMemPrefetchAsync_v2(memory + 8 * MIB, 8 * MIB, (Location){ON_DEVICE, 0}, 0, NULL));
  OK(cuCtxSynchronize());
  CHECK(used_mib() == 16);
  OK(cuMemPrefetchAsync(memory + 4 * MIB, 8 * MIB, -1, NULL));
  OK(cuCtxSynchronize());
  CHECK(used_mib() == 8);
  OK(cuMemPrefetchAsync_v2(memory, 32 * MIB, (Location){ON_HOST, 0}, 0, NULL));
  OK(cuCtxSynchronize());
  CHECK(used_mib() == 0);
}

/* What a driver that tells where a page is says of one (out_is_host). */
static unsigned type_of(CUdeviceptr memory) {
  unsigned type = 0;
  OK(cuPointerGetAttribute(&type, 2, memory));
  return type;
}

static void type(void) {
  enum { HOST = 1, ON_GPU = 2 };
  CUdeviceptr memory = managed(4), plain;
  OK(cuMemAlloc_v2(&plain, MIB));
  OK(cuMemsetD8_v2(memory, 1, 4 * MIB));
  CHECK(type_of(memory) == ON_GPU && type_of(memory + 4 * MIB - 1) == ON_GPU);
  OK(cuMemPrefetchAsync(memory + 2 * MIB, 2 * MIB, -1, NULL));
  OK(cuCtxSynchronize());
  CHECK(type_of(memory) == ON_GPU && type_of(memory + 2 * MIB) == HOST && type_of(plain) == ON_GPU);
}

enum { NOT_READY = 600 };

/* A thread that launches empty kernels in a stream of its own. */
static struct {
  CUcontext context;
  CUfunction empty;
  CUstream moves;
  _Atomic int launched, beside; /* launches; of them those that the first thread was in a call before and after */
  _Atomic int held, not_held;   /* launches begun while a move was under way: those that returned behind it, and before */
  atomic_bool watches, in_call, over; /* watches: the next launch is to begin while a move is under way */
} others;

static void *launches(void *unused) {
  CUstream stream;
  OK(cuCtxSetCurrent(others.context));
  OK(cuStreamCreate(&stream, 1));
  while (!others.over) {
    while (others.watches && (!others.in_call || cuStreamQuery(others.moves) == 0) && others.held == 0) continue;
    const int in_call = others.in_call, moves = cuStreamQuery(others.moves) == NOT_READY;
    spin(others.empty, 0, stream);
    others.launched++;
    if (moves && cuStreamQuery(others.moves) == NOT_READY) others.not_held++;
    else if (moves) others.held++;
    if (in_call && others.in_call) others.beside++;
    OK(cuStreamSynchronize(stream));
  }
  return unused;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* How long the call took, beside a thread that launches. */
static double called(CUdeviceptr memory, size_t mib, CUdevice to, CUstream stream) {
  others.beside = 0;
  others.in_call = true;
  const double began = seconds();
  OK(cuMemPrefetchAsync(memory, mib * MIB, to, stream));
  const double took = seconds() - began;
  others.in_call = false;
  return took;
}

/* The configuration says that moves out block (0.02 GB/s: .84 s for 16 MiB), and calls in take .1 s for each 2 MiB. */
static void blocks(CUmodule module, CUcontext context) {
  pthread_t thread;
  CUstream busy;
  CUevent event;
  CUdeviceptr memory = managed(16);
  OK(cuStreamCreate(&others.moves, 1));
  OK(cuStreamCreate(&busy, 1));
  OK(cuEventCreate(&event, 2));
  others.context = context;
  others.empty = kernel(module, "fikit_spin");
  OK(cuMemsetD8_v2(memory, 1, 16 * MIB));
  OK(cuCtxSynchronize());
  OK(pthread_create(&thread, NULL, launches, NULL));
  others.watches = true;
  called(memory, 16, -1, others.moves);
  others.watches = false;
  CHECK(cuStreamQuery(others.moves) == 0); /* the call returned when the move was over */
  CHECK(used_mib() == 0);
  while (others.held + others.not_held == 0) continue;
  CHECK(others.not_held == 0); /* and so did launches of the other thread */
  CHECK(called(memory, 16, 0, others.moves) >= .8);
  OK(cuStreamSynchronize(others.moves));
  CHECK(others.beside > 0); /* in calls to the GPU they do not wait */
  CHECK(called(memory, 16, 0, others.moves) < .8); /* it is there */
  OK(cuStreamSynchronize(others.moves));
  spin(others.empty, 500000000, busy); /* behind work, also of another stream, both calls return at once */
  OK(cuEventRecord(event, busy));
  OK(cuStreamWaitEvent(others.moves, event, 0));
  called(memory, 16, -1, others.moves);
  CHECK(cuStreamQuery(others.moves) == NOT_READY);
  called(memory, 16, 0, others.moves);
  CHECK(cuStreamQuery(others.moves) == NOT_READY);
  others.over = true;
  OK(pthread_join(thread, NULL));
  OK(cuCtxSynchronize());
}

/* A kernel uses the whole of what its pointers name, and its result is there. */
static void argument(CUmodule module) {
  CUdeviceptr memory = managed(24), other = managed(8), inside = memory + 4096;
  OK(cuMemsetD8_v2(inside, 0, 4));
  CHECK(used_mib() == 2);
  void *parameters[] = {&inside};
  OK(cuLaunchKernel(kernel(module, "emu_increment"), 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
  OK(cuCtxSynchronize());
  CHECK(used_mib() == 24);
  uint32_t value = 0;
  OK(cuMemcpyDtoH_v2(&value, inside, 4));
  CHECK(value == 1);
  OK(cuMemFree_v2(other));
}

/* A graph's kernel names its memory at each launch anew. */
static void graph(CUmodule module) {
  CUstream stream;
  CUgraph made;
  CUgraphExec exec;
  OK(cuStreamCreate(&stream, 1));
  CUdeviceptr counter = managed(8), crowd = managed(DEVICE);
  OK(cuMemsetD8_v2(counter, 0, 4));
  OK(cuStreamBeginCapture_v2(stream, 0));
  void *parameters[] = {&counter};
  OK(cuLaunchKernel(kernel(module, "emu_increment"), 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
  OK(cuStreamEndCapture(stream, &made));
  OK(cuGraphInstantiate_v2(&exec, made, NULL, NULL, 0));
  for (int i = 0; i < 3; i++) {
    OK(cuMemsetD8_v2(crowd, 1, DEVICE * MIB)); /* pushes the counter out */
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
  }
  uint32_t value = 0;
  OK(cuMemcpyDtoH_v2(&value, counter, 4));
  CHECK(value == 3);
}

static void wait_for_word(void) {
  fflush(stdout);
  getchar();
}

static void holds_managed(size_t mib) {
  CUdeviceptr memory = managed(mib);
  fill(memory, mib, 7);
  puts("holding");
  wait_for_word();
  compare(memory, mib, 7);
}

static void holds_plain(size_t mib) {
  CUdeviceptr memory;
  CUresult result = cuMemAlloc_v2(&memory, mib * MIB);
  if (result) printf("%d\n", result);
  else puts("holding");
  wait_for_word();
}

int main(int argc, char **argv) {
  CUcontext context;
  const char *name = argv[1];
  size_t mib = argc > 2 ? (size_t)atoi(argv[2]) : 0;
  CUmodule module = open_device(&context);
  if (!strcmp(name, "contents")) contents();
  else if (!strcmp(name, "info")) info();
  else if (!strcmp(name, "prefetch")) prefetch();
  else if (!strcmp(name, "argument")) argument(module);
  else if (!strcmp(name, "graph")) graph(module);
  else if (!strcmp(name, "type")) type();
  else if (!strcmp(name, "blocks")) blocks(module, context);
  else if (!strcmp(name, "holds_managed")) holds_managed(mib);
  else if (!strcmp(name, "holds_plain")) holds_plain(mib);
  else return 2;
  return 0;
}
