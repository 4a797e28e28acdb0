/*
 * What the shim costs a launch: ns per cuLaunchKernel by the driver's own pointer and by the shim's, in one process, in
 * turns, so that whatever disturbs one disturbs the other. Prints one JSON object. `python -m bench launch` runs it.
 *
 * usage: fikit-launch-bench ROUNDS LAUNCHES, with the shim preloaded
 */
#define _GNU_SOURCE
#include "bench_program.h"

/* Mean ns of one launch; the work is waited for outside the measured time. */
static double measure(launch_fn *launch, void *kernel, int launches, int (*synchronize)(void)) {
  uint64_t duration_ns = 0;
  void *params[] = {&duration_ns};
  int64_t start_ns = now_ns();
  for (int i = 0; i < launches; i++)
    check(launch(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL), "cuLaunchKernel");
  int64_t end_ns = now_ns();
  check(synchronize(), "cuCtxSynchronize");
  return (double)(end_ns - start_ns) / launches;
}

int main(int argc, char **argv) {
  int rounds = argc == 3 ? (int)strtol(argv[1], NULL, 10) : 0, launches = argc == 3 ? (int)strtol(argv[2], NULL, 10) : 0;
  if (rounds < 1 || launches < 1) {
    fprintf(stderr, "usage: fikit-launch-bench ROUNDS LAUNCHES\n");
    return 2;
  }
  void *library = must(dlopen("libcuda.so.1", RTLD_NOW), "libcuda.so.1");
  DRIVER(cuCtxSynchronize, void);
  launch_fn *through_shim = (launch_fn *)must(dlsym(library, "cuLaunchKernel"), "cuLaunchKernel");
  char device[256] = "";
  void *kernel = open_device(library, device);
  launch_fn *by_driver_itself = (launch_fn *)direct("cuLaunchKernel", (void *)through_shim);
  double *by_driver = must(calloc(2 * (size_t)rounds, sizeof *by_driver), "memory");
  double *by_shim = by_driver + rounds;
  for (int i = -rounds / 10 - 1; i < rounds; i++) { /* the first tenth warms up */
    double first = measure(i & 1 ? by_driver_itself : through_shim, kernel, launches, cuCtxSynchronize);
    double second = measure(i & 1 ? through_shim : by_driver_itself, kernel, launches, cuCtxSynchronize);
    if (i >= 0) {
      by_driver[i] = i & 1 ? first : second;
      by_shim[i] = i & 1 ? second : first;
    }
  }
  printf("{\"device\": \"%s\", \"launches_per_round\": %d, ", device, launches);
  print("direct_ns", by_driver, rounds, ", ");
  print("shim_ns", by_shim, rounds, "}\n");
  free(by_driver);
  return 0;
}
