/* Host functions as nodes of a graph. */
#include "../graphs.h"

static int g_calls;
static void count(void *by) { g_calls += *(int *)by; }

int main(void) {
  CUcontext context;
  CUmodule module = open_device(&context);
  CUdeviceptr counter = zeroed(4);
  void *arguments[] = {&counter};
  KernelNode add = {kernel(module, "emu_increment"), 1, 1, 1, 1, 1, 1, 0, arguments, NULL};
  int by = 3, type;
  HostNode call = {count, &by};
  CUgraph graph;
  CUgraphNode first, second, third;
  CUgraphExec exec;
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphAddKernelNode(&first, graph, NULL, 0, &add));
  see("add", cuGraphAddHostNode(&second, graph, &first, 1, &call));
  OK(cuGraphAddKernelNode(&third, graph, &second, 1, &add));
  OK(cuGraphNodeGetType(second, &type));
  see("type", type);
  call.function = NULL;
  see("no_function", cuGraphAddHostNode(&second, graph, &first, 1, &call));
  OK(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
  see("calls_before_launch", g_calls);
  OK(cuGraphLaunch(exec, NULL));
  OK(cuGraphLaunch(exec, NULL));
  OK(cuCtxSynchronize());
  see("calls", g_calls);
  see("kernels", word(counter));
  return 0;
}
