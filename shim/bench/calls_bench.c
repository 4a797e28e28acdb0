/*
 * What the shim costs calls beside the launch that programs make as often: a context pushed and popped around each launch, and
 * executable graphs that are updated before each launch. By the driver's own pointers and by the shim's, in one process, in turns.
 * Prints one JSON object: for each kind of call its ns by round. `python -m bench calls` runs it.
 *
 * The clock is the thread's own processor time, as in launch_bench.c.
 *
 * usage: fikit-calls-bench ROUNDS CALLS NODES, with the shim preloaded
 */
#define _GNU_SOURCE
#include "bench_program.h"

/* As in cuda.h (CUDA_KERNEL_NODE_PARAMS_v2). */
struct node_params {
  void *function;
  unsigned grid[3], block[3], shared_bytes;
  void **params, **extra, *kernel, *context;
};

/* Each once by the driver's own pointer, once by the shim's. */
struct calls {
  launch_fn *launch;
  int (*push)(void *context);
  int (*pop)(void **context);
  int (*update)(void *exec, void *graph, void *outcome);
  int (*set_params)(void *exec, void *node, const struct node_params *params);
};

static struct {
  int rounds, calls, nodes;
  struct calls way[2]; /* direct, shim */
  int (*synchronize)(void);
  int (*get_type)(void *node, int *type); /* the shim hands out the driver's own */
  int (*get_params)(void *node, struct node_params *params);
  void *context, *kernel, *stream;
  void *graph, *exec, **node;
} bench;

static void launch(const struct calls *way, void *stream) {
  uint64_t duration_ns = 0;
  void *params[] = {&duration_ns};
  check(way->launch(bench.kernel, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL), "cuLaunchKernel");
}

static void launch_alone(const struct calls *way) {
  for (int i = 0; i < bench.calls; i++)
    launch(way, bench.stream);
}

static void push_and_pop(const struct calls *way, int launches, void *stream) {
  void *popped;
  for (int i = 0; i < bench.calls; i++) {
    check(way->push(bench.context), "cuCtxPushCurrent");
    if (launches)
      launch(way, stream);
    check(way->pop(&popped), "cuCtxPopCurrent");
  }
}

static void switch_alone(const struct calls *way) {
  push_and_pop(way, 0, NULL);
}

static void launch_pushed(const struct calls *way) {
  push_and_pop(way, 1, bench.stream);
}

static void launch_default_pushed(const struct calls *way) {
  push_and_pop(way, 1, NULL);
}

static void update_graph(const struct calls *way) {
  int outcome[8];
  check(way->update(bench.exec, bench.graph, outcome), "cuGraphExecUpdate");
}

/* What the shim asks the driver itself in an update: how much of its time is the driver's. */
static void ask_nodes(const struct calls *way) {
  struct node_params params;
  int type;
  (void)way;
  for (int i = 0; i < bench.nodes; i++) {
    check(bench.get_type(bench.node[i], &type), "cuGraphNodeGetType");
    check(bench.get_params(bench.node[i], &params), "cuGraphKernelNodeGetParams");
  }
}

static void set_nodes(const struct calls *way, unsigned grid) {
  uint64_t duration_ns = 0;
  void *arguments[] = {&duration_ns};
  const struct node_params params = {bench.kernel, {grid, 1, 1}, {32, 1, 1}, 0, arguments, NULL, NULL, NULL};
  for (int i = 0; i < bench.nodes; i++)
    check(way->set_params(bench.exec, bench.node[i], &params), "cuGraphExecKernelNodeSetParams");
}

static void set_arguments(const struct calls *way) {
  set_nodes(way, 1);
}

static void set_grids(const struct calls *way) {
  set_nodes(way, 2);
  set_nodes(way, 1);
}

struct kind {
  const char *name;
  void (*act)(const struct calls *way);
  int of_graph; /* its time is one node's, else one call's */
  int times;    /* that act() does it to each */
};

static const struct kind kinds[] = {
    {"launch", launch_alone, 0, 1},
    {"push, pop", switch_alone, 0, 1},
    {"push, launch, pop", launch_pushed, 0, 1},
    {"push, launch on the default stream, pop", launch_default_pushed, 0, 1},
    {"cuGraphExecUpdate", update_graph, 1, 1},
    {"cuGraphNodeGetType, KernelNodeGetParams", ask_nodes, 1, 1},
    {"cuGraphExecKernelNodeSetParams, arguments", set_arguments, 1, 1},
    {"cuGraphExecKernelNodeSetParams, grids", set_grids, 1, 2},
};

static double measure(const struct kind *kind, const struct calls *way) {
  int64_t start_ns = own_ns();
  kind->act(way);
  int64_t end_ns = own_ns();
  check(bench.synchronize(), "cuCtxSynchronize");
  return (double)(end_ns - start_ns) / (kind->of_graph ? bench.nodes : bench.calls) / kind->times;
}

static void run(const struct kind *kind, const char *end) {
  double *ns[2];
  for (int way = 0; way < 2; way++)
    ns[way] = must(calloc((size_t)bench.rounds, sizeof(double)), "memory");
  for (int i = -bench.rounds / 10 - 1; i < bench.rounds; i++) /* the first tenth warms up */
    for (int turn = 0; turn < 2; turn++) {
      int way = (i & 1) ^ turn;
      double took_ns = measure(kind, &bench.way[way]);
      if (i >= 0)
        ns[way][i] = took_ns;
    }
  printf("{\"name\": \"%s\", ", kind->name);
  print("direct_ns", ns[0], bench.rounds, ", ");
  print("shim_ns", ns[1], bench.rounds, "}");
  printf("%s", end);
}

static void make_graph(void *library) {
  DRIVER(cuGraphCreate, void **, unsigned);
  DRIVER(cuGraphAddKernelNode_v2, void **, void *, void *const *, size_t, const struct node_params *);
  DRIVER(cuGraphInstantiateWithFlags, void **, void *, unsigned long long);
  uint64_t duration_ns = 0;
  void *arguments[] = {&duration_ns};
  const struct node_params params = {bench.kernel, {1, 1, 1}, {32, 1, 1}, 0, arguments, NULL, NULL, NULL};
  check(cuGraphCreate(&bench.graph, 0), "cuGraphCreate");
  bench.node = must(calloc((size_t)bench.nodes, sizeof(void *)), "memory");
  for (int i = 0; i < bench.nodes; i++)
    check(cuGraphAddKernelNode_v2(&bench.node[i], bench.graph, i ? &bench.node[i - 1] : NULL, i ? 1 : 0, &params), "cuGraphAddKernelNode");
  check(cuGraphInstantiateWithFlags(&bench.exec, bench.graph, 0), "cuGraphInstantiateWithFlags");
}

#define BOTH(member, name)                                                                \
  do {                                                                                    \
    void *through_shim = must(dlsym(library, name), name);                                \
    bench.way[1].member = (__typeof__(bench.way[1].member))through_shim;                  \
    bench.way[0].member = (__typeof__(bench.way[0].member))direct(name, through_shim); \
  } while (0)

int main(int argc, char **argv) {
  enum { NON_BLOCKING = 1, KINDS = sizeof kinds / sizeof *kinds };
  for (int i = 1; i < argc && i < 4; i++)
    *(int *[]){&bench.rounds, &bench.calls, &bench.nodes}[i - 1] = (int)strtol(argv[i], NULL, 10);
  if (bench.rounds < 1 || bench.calls < 1 || bench.nodes < 1) {
    fprintf(stderr, "usage: fikit-calls-bench ROUNDS CALLS NODES\n");
    return 2;
  }
  void *library = must(dlopen("libcuda.so.1", RTLD_NOW), "libcuda.so.1");
  DRIVER(cuCtxGetCurrent, void **);
  DRIVER(cuCtxSynchronize, void);
  DRIVER(cuStreamCreate, void **, unsigned);
  char device[256] = "";
  bench.kernel = open_device(library, device);
  check(cuCtxGetCurrent(&bench.context), "cuCtxGetCurrent");
  check(cuStreamCreate(&bench.stream, NON_BLOCKING), "cuStreamCreate");
  DRIVER(cuGraphNodeGetType, void *, int *);
  DRIVER(cuGraphKernelNodeGetParams_v2, void *, struct node_params *);
  bench.synchronize = cuCtxSynchronize, bench.get_type = cuGraphNodeGetType, bench.get_params = cuGraphKernelNodeGetParams_v2;
  make_graph(library);
  BOTH(launch, "cuLaunchKernel");
  BOTH(push, "cuCtxPushCurrent_v2");
  BOTH(pop, "cuCtxPopCurrent_v2");
  BOTH(update, "cuGraphExecUpdate_v2");
  BOTH(set_params, "cuGraphExecKernelNodeSetParams_v2");
  printf("{\"device\": \"%s\", \"calls\": [", device);
  for (int i = 0; i < KINDS; i++)
    run(&kinds[i], i + 1 < KINDS ? ", " : "]}\n");
  return 0;
}
