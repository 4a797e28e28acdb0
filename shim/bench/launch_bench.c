/*
 * What the shim costs a launch: ns per cuLaunchKernel by the driver's own pointer and by the shim's, in one process, in
 * turns, so that whatever disturbs one disturbs the other. In one thread or in several at once, each with a stream of its
 * own. Prints one JSON object. `python -m bench launch` runs it.
 *
 * The clock is the thread's own processor time, in which other threads' turns do not count: around a whole round, and, in
 * rounds of their own, since reading it takes as long as a launch, around each launch.
 *
 * usage: fikit-launch-bench ROUNDS LAUNCHES [THREADS], with the shim preloaded
 */
#define _GNU_SOURCE
#include "bench_program.h"

#include <pthread.h>
#include <stddef.h>

struct series {
  double *round_ns;   /* per launch, by round */
  unsigned *launch_ns; /* of each launch, with the reading of the clock */
};

struct worker {
  pthread_t thread;
  struct series direct, shim;
};

static struct {
  int rounds, launches, threads;
  launch_fn *direct, *shim;
  int (*set_current)(void *context);
  int (*create_stream)(void **stream, unsigned flags);
  int (*synchronize)(void *stream);
  void *context, *kernel;
  pthread_barrier_t start;
} bench;

static void launch_one(launch_fn *launch, void *stream) {
  uint64_t duration_ns = 0;
  void *params[] = {&duration_ns};
  check(launch(bench.kernel, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL), "cuLaunchKernel");
}

/* One round of each kind; the work is waited for outside the measured time. `round` < 0: warming up. */
static void measure(launch_fn *launch, void *stream, struct series *series, int round) {
  int64_t start_ns = own_ns();
  for (int i = 0; i < bench.launches; i++)
    launch_one(launch, stream);
  int64_t end_ns = own_ns();
  check(bench.synchronize(stream), "cuStreamSynchronize");
  if (round >= 0)
    series->round_ns[round] = (double)(end_ns - start_ns) / bench.launches;
  int64_t before_ns = own_ns();
  for (int i = 0; i < bench.launches; i++) {
    launch_one(launch, stream);
    int64_t after_ns = own_ns();
    if (round >= 0)
      series->launch_ns[round * bench.launches + i] = (unsigned)(after_ns - before_ns);
    before_ns = after_ns;
  }
  check(bench.synchronize(stream), "cuStreamSynchronize");
}

static void *work(void *argument) {
  enum { NON_BLOCKING = 1 };
  struct worker *worker = argument;
  void *stream;
  check(bench.set_current(bench.context), "cuCtxSetCurrent");
  check(bench.create_stream(&stream, NON_BLOCKING), "cuStreamCreate");
  pthread_barrier_wait(&bench.start);
  for (int i = -bench.rounds / 10 - 1; i < bench.rounds; i++) { /* the first tenth warms up */
    struct series *first = i & 1 ? &worker->direct : &worker->shim, *second = i & 1 ? &worker->shim : &worker->direct;
    measure(i & 1 ? bench.direct : bench.shim, stream, first, i);
    measure(i & 1 ? bench.shim : bench.direct, stream, second, i);
  }
  return NULL;
}

static void print_rounds(const char *name, const struct worker *workers, size_t series) {
  printf("\"%s_ns\": [", name);
  for (int t = 0; t < bench.threads; t++)
    for (int i = 0; i < bench.rounds; i++)
      printf("%s%.1f", t + i ? ", " : "", ((const struct series *)((const char *)&workers[t] + series))->round_ns[i]);
  printf("], ");
}

static void print_launches(const char *name, const struct worker *workers, size_t series, const char *end) {
  printf("\"%s_launches\": [", name);
  for (int t = 0; t < bench.threads; t++)
    for (int i = 0; i < bench.rounds * bench.launches; i++)
      printf("%s%u", t + i ? ", " : "", ((const struct series *)((const char *)&workers[t] + series))->launch_ns[i]);
  printf("]%s", end);
}

static void make_room(struct series *series) {
  series->round_ns = must(calloc((size_t)bench.rounds, sizeof(double)), "memory");
  series->launch_ns = must(calloc((size_t)bench.rounds * (size_t)bench.launches, sizeof(unsigned)), "memory");
}

static void run(void) {
  struct worker *workers = must(calloc((size_t)bench.threads, sizeof *workers), "memory");
  pthread_barrier_init(&bench.start, NULL, (unsigned)bench.threads);
  for (int t = 0; t < bench.threads; t++) {
    make_room(&workers[t].direct);
    make_room(&workers[t].shim);
    check(pthread_create(&workers[t].thread, NULL, work, &workers[t]), "pthread_create");
  }
  for (int t = 0; t < bench.threads; t++)
    pthread_join(workers[t].thread, NULL);
  print_rounds("direct", workers, offsetof(struct worker, direct));
  print_rounds("shim", workers, offsetof(struct worker, shim));
  print_launches("direct", workers, offsetof(struct worker, direct), ", ");
  print_launches("shim", workers, offsetof(struct worker, shim), "}\n");
  free(workers);
}

static int number(int argc, char **argv, int index, int otherwise) {
  return argc > index ? (int)strtol(argv[index], NULL, 10) : otherwise;
}

int main(int argc, char **argv) {
  bench.rounds = number(argc, argv, 1, 0), bench.launches = number(argc, argv, 2, 0), bench.threads = number(argc, argv, 3, 1);
  if (bench.rounds < 1 || bench.launches < 1 || bench.threads < 1) {
    fprintf(stderr, "usage: fikit-launch-bench ROUNDS LAUNCHES [THREADS]\n");
    return 2;
  }
  void *library = must(dlopen("libcuda.so.1", RTLD_NOW), "libcuda.so.1");
  DRIVER(cuCtxGetCurrent, void **);
  DRIVER(cuCtxSetCurrent, void *);
  DRIVER(cuStreamCreate, void **, unsigned);
  DRIVER(cuStreamSynchronize, void *);
  char device[256] = "";
  bench.kernel = open_device(library, device);
  check(cuCtxGetCurrent(&bench.context), "cuCtxGetCurrent");
  bench.set_current = cuCtxSetCurrent, bench.create_stream = cuStreamCreate, bench.synchronize = cuStreamSynchronize;
  bench.shim = (launch_fn *)must(dlsym(library, "cuLaunchKernel"), "cuLaunchKernel");
  bench.direct = (launch_fn *)direct("cuLaunchKernel", (void *)bench.shim);
  printf("{\"device\": \"%s\", ", device);
  run();
  return 0;
}
