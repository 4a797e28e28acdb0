/*
 * A job whose queue runs dry at moments that the device records: bursts of kernels, then the host computes. Prints one JSON
 * object: for each burst how many launches there were up to its end, and when the device was through with it, in
 * CLOCK_MONOTONIC nanoseconds. `python -m bench progress` compares that with what fikitd believed.
 *
 * usage: fikit-progress-bench BURSTS SCALE SEED [wait], with the shim preloaded; all times are SCALE times as long.
 * wait: having attached, begin when standard input ends.
 */
#define _GNU_SOURCE
#include "bench_program.h"

enum { KERNELS = 12, LONGEST_BURST = 60, CALIBRATIONS = 32 };

/* Microseconds: from elementwise to convolutions. A kernel's duration varies by 5 % around its own. */
static const int kernel_us[KERNELS] = {4, 6, 9, 12, 18, 25, 40, 60, 90, 140, 220, 350};
static const int burst_launches[] = {5, 12, 25, LONGEST_BURST};

static uint64_t random_state;

static double uniform(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (double)(random_state >> 11) / (double)(UINT64_C(1) << 53);
}

struct driver {
  launch_fn *launch;
  int (*record)(void *event, void *stream);
  int (*create)(void **event, unsigned flags);
  int (*elapsed)(float *ms, void *from, void *to);
  int (*synchronize)(void);
  void *kernel;
};

static void *new_event(const struct driver *driver) {
  void *event;
  check(driver->create(&event, 0), "cuEventCreate");
  return event;
}

/* An event on an idle device is recorded while the call that does it runs: the shortest call knows best when. */
static void *calibrate(const struct driver *driver, int64_t *at_ns) {
  void *best = NULL;
  int64_t shortest_ns = INT64_MAX;
  for (int i = 0; i < CALIBRATIONS; i++) {
    void *event = new_event(driver);
    int64_t before_ns = now_ns();
    check(driver->record(event, NULL), "cuEventRecord");
    int64_t call_ns = now_ns() - before_ns;
    check(driver->synchronize(), "cuCtxSynchronize");
    if (call_ns < shortest_ns) {
      shortest_ns = call_ns;
      *at_ns = before_ns + call_ns / 2;
      best = event;
    }
  }
  return best;
}

static void sleep_ns(int64_t ns) {
  struct timespec time = {ns / 1000000000, ns % 1000000000};
  while (nanosleep(&time, &time) != 0)
    ;
}

/* A burst always begins with the same kernels, as a program's step does; returns how long it will run. */
static int64_t burst(const struct driver *driver, int launches, int scale) {
  int64_t all_ns = 0;
  for (int i = 0; i < launches; i++) {
    int kernel = (i * 7 + launches) % KERNELS;
    uint64_t duration_ns = (uint64_t)(kernel_us[kernel] * 1000.0 * scale * (0.95 + 0.1 * uniform()));
    void *params[] = {&duration_ns};
    check(driver->launch(driver->kernel, 1 + (unsigned)kernel, 1, 1, 32, 1, 1, 0, NULL, params, NULL), "cuLaunchKernel");
    all_ns += (int64_t)duration_ns;
  }
  return all_ns;
}

/* Every fifth step ends with a synchronisation; in the others the host computes on, and nobody tells when the device is dry. */
static void step(const struct driver *driver, int number, int launches, int scale, void *end) {
  int64_t all_ns = burst(driver, launches, scale);
  check(driver->record(end, NULL), "cuEventRecord");
  int64_t gap_ns = (int64_t)((100 + 400 * uniform()) * 1000.0 * scale);
  if (number % 5 == 4)
    check(driver->synchronize(), "cuCtxSynchronize");
  else
    gap_ns += all_ns;
  sleep_ns(gap_ns);
}

int main(int argc, char **argv) {
  int wait = argc == 5 && strcmp(argv[4], "wait") == 0;
  int bursts = argc == 4 + wait ? (int)strtol(argv[1], NULL, 10) : 0, scale = bursts ? (int)strtol(argv[2], NULL, 10) : 0;
  if (bursts < 1 || scale < 1) {
    fprintf(stderr, "usage: fikit-progress-bench BURSTS SCALE SEED [wait]\n");
    return 2;
  }
  random_state = (uint64_t)strtoull(argv[3], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) | 1;
  void *library = must(dlopen("libcuda.so.1", RTLD_NOW), "libcuda.so.1");
  DRIVER(cuEventRecord, void *, void *);
  DRIVER(cuEventCreate, void **, unsigned);
  DRIVER(cuEventElapsedTime, float *, void *, void *);
  DRIVER(cuCtxSynchronize, void);
  char device[256] = "";
  struct driver driver = {(launch_fn *)must(dlsym(library, "cuLaunchKernel"), "cuLaunchKernel"),
                          cuEventRecord, cuEventCreate, cuEventElapsedTime, cuCtxSynchronize,
                          open_device(library, device)};
  while (wait && getchar() != EOF)
    ;
  void **ends = must(calloc((size_t)bursts, sizeof *ends), "memory");
  for (int i = 0; i < bursts; i++)
    ends[i] = new_event(&driver);
  int64_t base_ns = 0;
  void *base = calibrate(&driver, &base_ns);
  for (int i = 0; i < bursts; i++)
    step(&driver, i, burst_launches[i % 4], scale, ends[i]);
  burst(&driver, 1, scale); /* ends the last gap */
  check(cuCtxSynchronize(), "cuCtxSynchronize");
  printf("{\"device\": \"%s\", \"idle\": [", device);
  long launches = 0;
  double end_ns = (double)base_ns;
  for (int i = 0; i < bursts; i++) { /* from end to end: a float is exact to nanoseconds only over a short time */
    float ms = 0;
    launches += burst_launches[i % 4];
    check(cuEventElapsedTime(&ms, i ? ends[i - 1] : base, ends[i]), "cuEventElapsedTime");
    end_ns += (double)ms * 1e6;
    printf("%s[%ld, %lld]", i ? ", " : "", launches, (long long)end_ns);
  }
  printf("]}\n");
  free(ends);
  return 0;
}
