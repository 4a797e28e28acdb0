/* Each launch of 50 ms is one that nobody has seen: `identities SECONDS graphs` has a new graph each time, `grids` a new grid, `streams` a new grid on the next of 64 streams. */
#include "attack.h"

enum { STREAMS = 64 };

static CUstream streams[STREAMS];

static void new_graph(unsigned number) {
  int64_t ns = 50 * MS;
  void *arguments[] = {&ns};
  const KernelNode node = {timed, BLOCKS + number, 1, 1, THREADS, 1, 1, 0, arguments, NULL};
  CUgraph graph;
  CUgraphNode made;
  CUgraphExec exec;
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphAddKernelNode(&made, graph, NULL, 0, &node));
  OK(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
  OK(cuGraphLaunch(exec, streams[0]));
  OK(cuStreamSynchronize(streams[0]));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

int main(int argc, char **argv) {
  const char *form = argc > 2 ? argv[2] : "graphs";
  begin(argc, argv);
  for (int i = 0; i < STREAMS; i++)
    OK(cuStreamCreate(&streams[i], 1));
  for (unsigned i = 0; going_on(); i++) {
    if (strcmp(form, "graphs") == 0)
      new_graph(i);
    else
      launch_grid(50 * MS, streams[strcmp(form, "streams") == 0 ? i % STREAMS : 0], BLOCKS + i);
    if (strcmp(form, "streams") != 0 || i % STREAMS == STREAMS - 1)
      OK(cuCtxSynchronize());
    ended();
  }
  return finish();
}
