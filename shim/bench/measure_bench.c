/*
 * What timing launches costs a job: how long the same work takes by the driver's own functions and by the shim's, in one
 * process, in turns. Prints one JSON object. `python -m bench measure` runs it, with and without samples and measurement.
 *
 * usage: fikit-measure-bench ROUNDS ITERATIONS LAUNCHES KERNEL_NS THINK_NS HOST_BOUND, with the shim preloaded. An iteration
 * launches kernels of about KERNEL_NS, computes THINK_NS on the host before each, and synchronises at its end. HOST_BOUND
 * is 1 or 0: time is the thread's own, in which other programs on the machine do not count, or the wall clock's, in which
 * waiting for the device counts.
 */
#define _GNU_SOURCE
#include "bench_program.h"

struct work {
  void *kernel;
  int iterations, launches;
  int64_t kernel_ns, think_ns;
  clockid_t clock;
};

static int64_t time_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* What a core does for another of its threads while this one spins. */
static inline void between_looks(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void think(const struct work *work) {
  int64_t until_ns = time_ns(work->clock) + work->think_ns;
  while (time_ns(work->clock) < until_ns)
    between_looks();
}

/* Milliseconds of one round. Four kernels of different length, told apart by their grid. */
static double run(const struct work *work, launch_fn *launch, int (*synchronize)(void)) {
  int64_t start_ns = time_ns(work->clock);
  for (int i = 0; i < work->iterations; i++) {
    for (int k = 0; k < work->launches; k++) {
      uint64_t duration_ns = (uint64_t)(work->kernel_ns * (1 + k % 4) * 2 / 5);
      void *params[] = {&duration_ns};
      think(work);
      check(launch(work->kernel, 1 + (unsigned)k % 4, 1, 1, 32, 1, 1, 0, NULL, params, NULL), "cuLaunchKernel");
    }
    check(synchronize(), "cuCtxSynchronize");
  }
  return (double)(time_ns(work->clock) - start_ns) / 1e6;
}

int main(int argc, char **argv) {
  long numbers[6] = {0};
  for (int i = 1; i < argc && argc == 7; i++)
    numbers[i - 1] = strtol(argv[i], NULL, 10);
  int rounds = (int)numbers[0];
  if (rounds < 1 || numbers[1] < 1 || numbers[2] < 1 || numbers[3] < 0 || numbers[4] < 0) {
    fprintf(stderr, "usage: fikit-measure-bench ROUNDS ITERATIONS LAUNCHES KERNEL_NS THINK_NS HOST_BOUND\n");
    return 2;
  }
  void *library = must(dlopen("libcuda.so.1", RTLD_NOW), "libcuda.so.1");
  DRIVER(cuCtxSynchronize, void);
  launch_fn *shim_launch = (launch_fn *)must(dlsym(library, "cuLaunchKernel"), "cuLaunchKernel");
  char device[256] = "";
  struct work work = {open_device(library, device), (int)numbers[1], (int)numbers[2], numbers[3], numbers[4],
                      numbers[5] ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC};
  launch_fn *driver_launch = (launch_fn *)direct("cuLaunchKernel", (void *)shim_launch);
  int (*driver_synchronize)(void) = (int (*)(void))direct("cuCtxSynchronize", (void *)cuCtxSynchronize);
  double *by_driver = must(calloc(2 * (size_t)rounds, sizeof *by_driver), "memory");
  double *by_shim = by_driver + rounds;
  for (int i = -2; i < rounds; i++) { /* the first ones warm up */
    double first = i & 1 ? run(&work, driver_launch, driver_synchronize) : run(&work, shim_launch, cuCtxSynchronize);
    double second = i & 1 ? run(&work, shim_launch, cuCtxSynchronize) : run(&work, driver_launch, driver_synchronize);
    if (i >= 0) {
      by_driver[i] = i & 1 ? first : second;
      by_shim[i] = i & 1 ? second : first;
    }
  }
  printf("{\"device\": \"%s\", ", device);
  print("direct_ms", by_driver, rounds, ", ");
  print("shim_ms", by_shim, rounds, "}\n");
  free(by_driver);
  return 0;
}
