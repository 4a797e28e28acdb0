/*
 * One of two programs that share a GPU under MPS. The low program's kernels have many waves of blocks, and each block takes more
 * or less dynamic shared memory: with more of it, fewer blocks fit on a multiprocessor. What does the high program's kernel gain?
 *
 * Says "ready". For each line with a number of milliseconds it works so long, and prints one JSON object.
 *
 * usage: fikit-gpu-shaping high                kernels of 20 us that fill the GPU once, one at a time, 200 us apart
 *        fikit-gpu-shaping low SHARED_KIB      a chain of kernels of eight waves, in blocks of 256 threads and 100 us
 */
#define _GNU_SOURCE
#define MORE_DRIVER_FUNCTIONS(F) F(cuFuncSetAttribute, void *, int, int)
#include "device.h"

enum {
  MOST_SHARED_MEMORY = 8, /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
  MOST_KIB = 227,         /* of a block, on sm_90 */
  CAPACITY = 16384,
  HIGH_NS = 20000,
  PAUSE_NS = 200000,
  LOW_NS = 100000,
  LOW_THREADS = 256,
  LOW_WAVES = 8,
  AT_A_TIME = 4,
};

static unsigned shared_bytes;

static void launch_low(int slot) {
  double rounds = LOW_NS * gpu.rounds_per_ns;
  uint64_t ns = LOW_NS, turns = rounds < 1 ? 1 : (uint64_t)rounds;
  device_pointer out = gpu.stamps + (device_pointer)slot * STAMP_WORDS * sizeof(uint64_t);
  void *parameters[] = {&ns, &out, &turns};
  unsigned blocks = (unsigned)gpu.multiprocessors * (2048 / LOW_THREADS) * LOW_WAVES;
  check(cuLaunchKernel(gpu.stamp, blocks, 1, 1, LOW_THREADS, 1, 1, shared_bytes, gpu.stream, parameters, NULL),
        "launch a kernel");
}

static void run_high(int64_t until_ns) {
  static int64_t took[CAPACITY];
  int count = 0;
  for (int64_t end_ns = now_ns(); end_ns < until_ns && count < CAPACITY;) {
    while (now_ns() < end_ns + PAUSE_NS)
      ;
    int64_t before_ns = now_ns();
    launch_work(gpu.stream, (unsigned)gpu.multiprocessors * 2, HIGH_NS, 0);
    check(cuStreamSynchronize(gpu.stream), "wait for the kernel");
    end_ns = now_ns();
    took[count++] = end_ns - before_ns;
  }
  print_numbers("took_ns", took, count);
}

/* A few kernels are always queued, so that the device never waits for the host. */
static void run_low(int64_t until_ns) {
  int64_t begin_ns = now_ns();
  int count = 0;
  void *events[AT_A_TIME];
  for (int i = 0; i < AT_A_TIME; i++)
    check(cuEventCreate(&events[i], UNTIMED), "create an event");
  for (; now_ns() < until_ns; count++) {
    while (count >= AT_A_TIME && cuEventQuery(events[count % AT_A_TIME]) == 600 /* CUDA_ERROR_NOT_READY */)
      ;
    launch_low(0);
    check(cuEventRecord(events[count % AT_A_TIME], gpu.stream), "record an event");
  }
  check(cuStreamSynchronize(gpu.stream), "wait for the kernels");
  printf(", \"kernels\": %d, \"elapsed_ns\": %" PRId64, count, now_ns() - begin_ns);
}

int main(int argc, char **argv) {
  bool is_high = argc == 2 && strcmp(argv[1], "high") == 0;
  long kib = argc == 3 && strcmp(argv[1], "low") == 0 ? strtol(argv[2], NULL, 10) : -1;
  if (!is_high && (kib < 0 || kib > MOST_KIB)) {
    fprintf(stderr, "usage: fikit-gpu-shaping high | low SHARED_KIB (0 to %d)\n", MOST_KIB);
    return 2;
  }
  open_gpu(1);
  if (!is_high && kib > 0) {
    shared_bytes = (unsigned)kib * 1024;
    check(cuFuncSetAttribute(gpu.stamp, MOST_SHARED_MEMORY, (int)shared_bytes), "allow so much shared memory");
  }
  printf("ready\n");
  fflush(stdout);
  char line[32];
  while (fgets(line, sizeof line, stdin)) {
    int64_t until_ns = now_ns() + strtoll(line, NULL, 10) * 1000000;
    print_gpu();
    if (is_high)
      run_high(until_ns);
    else
      run_low(until_ns);
    printf("}\n");
    fflush(stdout);
  }
  return 0;
}
