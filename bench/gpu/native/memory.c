/*
 * What managed memory costs that leaves the GPU and comes back: copies, prefetches, page faults, a kernel on memory that is there, and a plain
 * allocation that has to push managed memory out. All that docs/memory.md assumes, and only hardware can say.
 * Prints one JSON object; series are ns of a piece of 64 MiB, or of what their name says.
 *
 * usage: fikit-gpu-memory PIECES [evict]
 */
#define _GNU_SOURCE
#define MORE_DRIVER_FUNCTIONS(F)                                                                                       \
  F(cuMemGetInfo_v2, size_t *, size_t *)                                                                               \
  F(cuMemsetD8Async, device_pointer, unsigned char, size_t, void *)                                                    \
  F(cuMemFree_v2, device_pointer)                                                                                      \
  F(cuMemAllocHost_v2, void **, size_t)                                                                                \
  F(cuMemAllocManaged, device_pointer *, size_t, unsigned)                                                             \
  F(cuMemcpyHtoDAsync_v2, device_pointer, const void *, size_t, void *)                                                \
  F(cuMemcpyDtoHAsync_v2, void *, device_pointer, size_t, void *)                                                      \
  F(cuCtxGetCurrent, void **)                                                                                          \
  F(cuCtxSetCurrent, void *)                                                                                           \
  F(cuStreamWaitEvent, void *, void *, unsigned)                                                                       \
  F(cuPointerGetAttribute, void *, int, device_pointer)                                                                \
  F(cuStreamBeginCapture_v2, void *, int)                                                                              \
  F(cuStreamEndCapture, void *, void **)
#include "device.h"

#include <pthread.h>
#include <stdatomic.h>

struct location {
  int type, id;
};

enum {
  PIECE = 64 << 20,
  CHUNK = 2 << 20,
  PAGE = 4096,
  MOST = 256,
  CONCURRENT_MANAGED_ACCESS = 89,
  ATTACH_GLOBAL = 1,
  ON_DEVICE = 1, /* CUmemLocationType */
  ON_HOST = 2,
  ON_HOST_NODE = 3,
  PREFER = 3, /* CUmem_advise: its location */
  CAPTURE_GLOBAL = 0,
  ATTRIBUTES = 22, /* of a pointer */
  RESERVE = 256 << 20,
};

static int pieces;
static void *other_stream, *pinned, *touch;
static int (*prefetch_v2)(device_pointer, size_t, struct location, unsigned, void *);
static int (*prefetch_v1)(device_pointer, size_t, int, void *);
static int (*advise_v2)(device_pointer, size_t, int, struct location);

static int prefetch(device_pointer memory, size_t bytes, bool in, void *stream) {
  return prefetch_v2 ? prefetch_v2(memory, bytes, (struct location){in ? ON_DEVICE : ON_HOST, 0}, 0, stream)
                     : prefetch_v1(memory, bytes, in ? 0 : -1, stream);
}

static void wait_for(void *stream) { check(cuStreamSynchronize(stream), "wait for a stream"); }

static device_pointer managed(size_t bytes) {
  device_pointer memory = 0;
  check(cuMemAllocManaged(&memory, bytes, ATTACH_GLOBAL), "get managed memory");
  return memory;
}

/* One word in every `stride` bytes is read and written. */
static void launch_touch(device_pointer memory, size_t bytes, uint64_t stride) {
  uint64_t words = bytes / stride;
  void *parameters[] = {&memory, &words, &stride};
  const unsigned blocks = (unsigned)(words / 1024 + 1);
  check(cuLaunchKernel(touch, blocks < 1024 ? blocks : 1024, 1, 1, 256, 1, 1, 0, gpu.stream, parameters, NULL), "launch a kernel");
}

static int64_t touched_ns(device_pointer memory, size_t bytes, uint64_t stride) {
  const int64_t begin_ns = now_ns();
  launch_touch(memory, bytes, stride);
  wait_for(gpu.stream);
  return now_ns() - begin_ns;
}

static device_pointer at[MOST]; /* managed, one allocation for each piece */
static int64_t taken[MOST], calls[MOST];

static void copies(device_pointer plain) {
  for (int i = 0; i < pieces; i++) {
    const int64_t begin_ns = now_ns();
    check(cuMemcpyHtoDAsync_v2(plain, pinned, PIECE, gpu.stream), "copy in");
    wait_for(gpu.stream);
    taken[i] = now_ns() - begin_ns;
  }
  print_numbers("copy_in", taken, pieces);
  for (int i = 0; i < pieces; i++) {
    const int64_t begin_ns = now_ns();
    check(cuMemcpyDtoHAsync_v2(pinned, plain, PIECE, gpu.stream), "copy out");
    wait_for(gpu.stream);
    taken[i] = now_ns() - begin_ns;
  }
  print_numbers("copy_out", taken, pieces);
}

/* Of each piece, and of the call alone. */
static void prefetches(bool in, const char *name, const char *name_of_calls) {
  for (int i = 0; i < pieces; i++) {
    const int64_t begin_ns = now_ns();
    check(prefetch(at[i], PIECE, in, gpu.stream), "prefetch");
    const int64_t called_ns = now_ns();
    wait_for(gpu.stream);
    taken[i] = now_ns() - begin_ns;
    calls[i] = called_ns - begin_ns;
  }
  print_numbers(name, taken, pieces);
  print_numbers(name_of_calls, calls, pieces);
}

static void move(int first, bool in) {
  for (int i = first; i < pieces; i++)
    check(prefetch(at[i], PIECE, in, gpu.stream), "prefetch");
  wait_for(gpu.stream);
}

/* As a plan moves memory: in a stream of its own, behind a kernel that runs for long. The call alone, the launch after it, and the move from the kernel's end on. */
static void behind_kernels(bool in, const char *const names[3]) {
  enum { KERNEL_NS = 30000000 };
  static int64_t launches[MOST];
  void *event = NULL;
  DO(cuEventCreate(&event, UNTIMED));
  for (int i = 0; i < pieces; i++) {
    launch_work(gpu.stream, 1, KERNEL_NS, 0);
    DO(cuEventRecord(event, gpu.stream));
    DO(cuStreamWaitEvent(other_stream, event, 0));
    const int64_t begin_ns = now_ns();
    check(prefetch(at[i], PIECE, in, other_stream), "prefetch");
    const int64_t called_ns = now_ns();
    launch_null(gpu.stream);
    launches[i] = now_ns() - called_ns;
    calls[i] = called_ns - begin_ns;
    wait_for(gpu.stream);
    const int64_t over_ns = now_ns();
    wait_for(other_stream);
    taken[i] = now_ns() - over_ns;
  }
  print_numbers(names[0], calls, pieces);
  print_numbers(names[1], launches, pieces);
  print_numbers(names[2], taken, pieces);
}

static struct {
  void *context;
  bool in;
  _Atomic bool over;
} mover;

static void *move_all(void *unused) {
  DO(cuCtxSetCurrent(mover.context));
  for (int i = 0; i < pieces; i++)
    check(prefetch(at[i], PIECE, mover.in, other_stream), "prefetch");
  wait_for(other_stream);
  mover.over = true;
  return unused;
}

/* Launches in one stream while moves in another, each behind its own kernel, are under way: the driver makes those without the thread that asked for them. */
static void launches_beside_deferred(bool in, const char *name, const char *name_of_runs) {
  enum { SAMPLES = 4000, KERNEL_NS = 2000000 };
  static int64_t launches[SAMPLES], runs[SAMPLES];
  void *event = NULL;
  int count = 0;
  DO(cuEventCreate(&event, UNTIMED));
  launch_work(gpu.stream, 1, KERNEL_NS, 0);
  DO(cuEventRecord(event, gpu.stream));
  DO(cuStreamWaitEvent(other_stream, event, 0));
  for (int i = 0; i < pieces; i++)
    check(prefetch(at[i], PIECE, in, other_stream), "prefetch");
  DO(cuEventRecord(event, other_stream));
  wait_for(gpu.stream);
  for (; count < SAMPLES && (cuEventQuery(event) != 0 || count == 0); count++) {
    const int64_t begin_ns = now_ns();
    launch_null(gpu.stream);
    launches[count] = now_ns() - begin_ns;
    wait_for(gpu.stream);
    runs[count] = now_ns() - begin_ns;
  }
  wait_for(other_stream);
  print_numbers(name, launches, count);
  print_numbers(name_of_runs, runs, count);
}

enum behind { NOTHING, EVENT, FILL, KERNEL };

/* The call alone, of a prefetch away from the GPU in a stream that waits for a kernel in another one, or has an event or a small fill of its own in front of it:
 * by which of them, and from which length of the kernel on, does the driver take the stream for one that has work? */
static void calls_behind(enum behind what, int64_t kernel_ns, device_pointer plain, const char *name) {
  void *event = NULL;
  DO(cuEventCreate(&event, UNTIMED));
  for (int i = 0; i < pieces; i++) {
    wait_for(other_stream);
    if (what == KERNEL) {
      launch_work(gpu.stream, 1, kernel_ns, 0);
      DO(cuEventRecord(event, gpu.stream));
      DO(cuStreamWaitEvent(other_stream, event, 0));
    } else if (what == EVENT)
      DO(cuEventRecord(event, other_stream));
    else if (what == FILL)
      check(cuMemsetD8Async(plain, 0, PAGE, other_stream), "fill");
    const int64_t begin_ns = now_ns();
    check(prefetch(at[i], PIECE, false, other_stream), "prefetch");
    calls[i] = now_ns() - begin_ns;
  }
  wait_for(other_stream);
  wait_for(gpu.stream);
  print_numbers(name, calls, pieces);
  move(0, true);
}

static void calls_behind_short_work(device_pointer plain) {
  calls_behind(NOTHING, 0, plain, "out_behind_nothing_call");
  calls_behind(EVENT, 0, plain, "out_behind_event_call");
  calls_behind(FILL, 0, plain, "out_behind_fill_call");
  static const int kernels_us[] = {2, 5, 10, 20, 50, 100};
  for (unsigned i = 0; i < sizeof kernels_us / sizeof *kernels_us; i++) {
    char name[64];
    snprintf(name, sizeof name, "out_behind_%dus_call", kernels_us[i]);
    calls_behind(KERNEL, kernels_us[i] * INT64_C(1000), plain, name);
  }
}

/* As conversion leaves memory: it prefers the GPU. And to a node of the host, by its number. */
static void moves_otherwise(void) {
  for (int i = 0; advise_v2 && i < pieces; i++)
    check(advise_v2(at[i], PIECE, PREFER, (struct location){ON_DEVICE, 0}), "advise");
  prefetches(false, "prefetch_out_preferred", "prefetch_out_preferred_call");
  prefetches(true, "prefetch_in_preferred", "prefetch_in_preferred_call");
  if (!prefetch_v2)
    return;
  for (int i = 0; i < pieces; i++) {
    const int64_t begin_ns = now_ns();
    if (prefetch_v2(at[i], PIECE, (struct location){ON_HOST_NODE, 0}, 0, gpu.stream) != 0)
      return;
    wait_for(gpu.stream);
    taken[i] = now_ns() - begin_ns;
  }
  print_numbers("prefetch_out_to_node", taken, pieces);
  move(0, true);
}

/* Launches of kernels that use none of that memory, one at a time, while another thread moves all of it: until each was given to the driver, and until it had run. */
static void launches_beside(bool in, const char *name, const char *name_of_runs) {
  enum { SAMPLES = 20000 };
  static int64_t launches[SAMPLES], runs[SAMPLES];
  int count = 0;
  pthread_t thread;
  DO(cuCtxGetCurrent(&mover.context));
  mover.in = in;
  mover.over = false;
  if (pthread_create(&thread, NULL, move_all, NULL) != 0)
    fail("start a thread", "no room for one");
  for (; count < SAMPLES && (!mover.over || count == 0); count++) {
    const int64_t begin_ns = now_ns();
    launch_null(gpu.stream);
    launches[count] = now_ns() - begin_ns;
    wait_for(gpu.stream);
    runs[count] = now_ns() - begin_ns;
  }
  pthread_join(thread, NULL);
  print_numbers(name, launches, count);
  print_numbers(name_of_runs, runs, count);
}

/* A piece moved in parts, each by a call of its own. */
static void in_parts(bool in, uint64_t bytes, const char *name) {
  for (int i = 0; i < pieces; i++) {
    const int64_t begin_ns = now_ns();
    for (uint64_t part = 0; part < PIECE; part += bytes)
      check(prefetch(at[i] + part, bytes, in, gpu.stream), "prefetch");
    wait_for(gpu.stream);
    taken[i] = now_ns() - begin_ns;
  }
  print_numbers(name, taken, pieces);
}

static void moves(device_pointer plain) {
  prefetches(false, "prefetch_out", "prefetch_out_call");
  prefetches(true, "prefetch_in", "prefetch_in_call");
  prefetches(false, "prefetch_out_again", "prefetch_out_again_call");
  move(0, true);
  behind_kernels(false, (const char *const[]){"out_behind_kernel_call", "launch_after_out", "out_behind_kernel"});
  behind_kernels(true, (const char *const[]){"in_behind_kernel_call", "launch_after_in", "in_behind_kernel"});
  launches_beside(false, "launch_beside_out", "kernel_beside_out");
  launches_beside(true, "launch_beside_in", "kernel_beside_in");
  launches_beside_deferred(false, "launch_beside_deferred_out", "kernel_beside_deferred_out");
  launches_beside_deferred(true, "launch_beside_deferred_in", "kernel_beside_deferred_in");
  calls_behind_short_work(plain);
  moves_otherwise();
  in_parts(false, CHUNK, "prefetch_out_by_2mib");
  in_parts(true, CHUNK, "prefetch_in_by_2mib");
  in_parts(false, 8 * CHUNK, "prefetch_out_by_16mib");
  in_parts(true, 8 * CHUNK, "prefetch_in_by_16mib");
}

/* In, while the first half goes out: both are on their way until the shorter one has ended. */
static void both_ways(void) {
  const int half = pieces / 2;
  move(half, false);
  for (int i = 0; i < half; i++) {
    const int64_t begin_ns = now_ns();
    check(prefetch(at[i], PIECE, false, other_stream), "prefetch");
    check(prefetch(at[half + i], PIECE, true, gpu.stream), "prefetch");
    wait_for(gpu.stream);
    taken[i] = now_ns() - begin_ns;
    wait_for(other_stream);
  }
  print_numbers("prefetch_in_beside_out", taken, half);
}

/* The first touch of memory that is out: of every page, and of one word in each chunk. */
static void faults(void) {
  move(0, false);
  for (int i = 0; i < pieces; i++)
    taken[i] = touched_ns(at[i], PIECE, PAGE);
  print_numbers("fault_each_page", taken, pieces);
  move(0, false);
  for (int i = 0; i < pieces; i++)
    taken[i] = touched_ns(at[i], PIECE, CHUNK);
  print_numbers("fault_each_chunk", taken, pieces);
}

/* The same kernel on memory that is there: plain, and managed. */
static void resident(device_pointer plain) {
  move(0, true);
  for (int i = 0; i < pieces; i++)
    taken[i] = touched_ns(plain, PIECE, 128);
  print_numbers("touch_plain", taken, pieces);
  for (int i = 0; i < pieces; i++)
    taken[i] = touched_ns(at[0], PIECE, 128);
  print_numbers("touch_managed", taken, pieces);
}

/* What plain memory costs where there is room, and, of a GPU that is to be full, where managed memory, which nobody uses now, has to go first. */
static void allocations(bool evict) {
  enum { TIMES = 8 };
  size_t free_bytes = 0, total_bytes = 0;
  device_pointer plain[TIMES];
  for (int full = 0; full < 1 + evict; full++) {
    device_pointer filling = 0;
    if (full) {
      check(cuMemGetInfo_v2(&free_bytes, &total_bytes), "ask for free memory");
      const size_t bytes = free_bytes / CHUNK * CHUNK;
      filling = managed(bytes);
      check(prefetch(filling, bytes, true, gpu.stream), "fill the GPU");
      wait_for(gpu.stream);
    }
    int count = 0;
    for (; count < TIMES; count++) {
      const int64_t begin_ns = now_ns();
      if (cuMemAlloc_v2(&plain[count], PIECE) != 0)
        break;
      taken[count] = now_ns() - begin_ns;
    }
    print_numbers(full ? "alloc_that_evicts" : "alloc", taken, count);
    while (count > 0)
      check(cuMemFree_v2(plain[--count]), "free memory");
    if (filling)
      check(cuMemFree_v2(filling), "free memory");
  }
}

/* Does a prefetch in another stream break a capture in global mode? The call's result, and the capture's. */
static void beside_capture(void) {
  void *graph = NULL;
  check(cuStreamBeginCapture_v2(gpu.stream, CAPTURE_GLOBAL), "begin a capture");
  const int call = prefetch(at[0], CHUNK, true, other_stream);
  const int capture = cuStreamEndCapture(gpu.stream, &graph);
  printf(", \"prefetch_beside_capture\": %d, \"capture_beside_prefetch\": %d", call, capture);
  wait_for(other_stream);
}

/* What the driver says of a managed pointer: number, result, value. */
static void attributes(void) {
  printf(", \"attributes\": [");
  for (int i = 1; i <= ATTRIBUTES; i++) {
    uint64_t value[8] = {0};
    const int result = cuPointerGetAttribute(value, i, at[0]);
    printf("%s[%d, %d, %d]", i > 1 ? ", " : "", i, result, (int)(value[0] & 0xffff));
  }
  printf("]");
}

static void load_touch(void) {
  void *library = needed(dlopen("libcuda.so.1", RTLD_NOW));
  prefetch_v2 = (int (*)(device_pointer, size_t, struct location, unsigned, void *))dlsym(library, "cuMemPrefetchAsync_v2");
  prefetch_v1 = (int (*)(device_pointer, size_t, int, void *))dlsym(library, "cuMemPrefetchAsync");
  advise_v2 = (int (*)(device_pointer, size_t, int, struct location))dlsym(library, "cuMemAdvise_v2");
  if (!prefetch_v2 && !prefetch_v1)
    fail("find cuMemPrefetchAsync", "this driver lacks it");
  check(cuModuleGetFunction(&touch, gpu.module, "fikit_touch"), "find fikit_touch");
}

int main(int argc, char **argv) {
  const bool evict = argc == 3 && strcmp(argv[2], "evict") == 0;
  pieces = argc == 2 + evict ? (int)strtol(argv[1], NULL, 10) : 0;
  if (pieces < 2 || pieces > MOST) {
    fprintf(stderr, "usage: fikit-gpu-memory PIECES (of 64 MiB, 2 to %d) [evict]\n", MOST);
    return 2;
  }
  int able = 0;
  device_pointer plain = 0;
  open_gpu(1);
  print_gpu();
  load_touch();
  DO(cuDeviceGetAttribute(&able, CONCURRENT_MANAGED_ACCESS, 0));
  printf(", \"concurrent_managed_access\": %s, \"piece_bytes\": %d", able ? "true" : "false", PIECE);
  if (able) {
    DO(cuStreamCreate(&other_stream, NON_BLOCKING));
    DO(cuMemAlloc_v2(&plain, PIECE));
    DO(cuMemAllocHost_v2(&pinned, PIECE));
    memset(pinned, 1, PIECE);
    for (int i = 0; i < pieces; i++) {
      at[i] = managed(PIECE);
      touched_ns(at[i], PIECE, PAGE); /* from here on it has contents */
    }
    attributes();
    copies(plain);
    moves(plain);
    both_ways();
    faults();
    resident(plain);
    beside_capture();
    for (int i = 0; i < pieces; i++)
      DO(cuMemFree_v2(at[i]));
    allocations(evict);
  }
  printf("}\n");
  return 0;
}
