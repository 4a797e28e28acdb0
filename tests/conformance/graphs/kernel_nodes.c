/* What a graph's kernel nodes tell about their launches, and how they are changed. */
#include "../graphs.h"

CUresult cuGraphKernelNodeGetParams(CUgraphNode, KernelNode *), cuGraphKernelNodeSetParams(CUgraphNode, const KernelNode *);
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode, KernelNodeV2 *);
CUresult cuFuncGetParamInfo(CUfunction, size_t, size_t *, size_t *);

int main(void) {
  CUcontext context;
  CUmodule module = open_device(&context);
  CUfunction check = kernel(module, "emu_check_order");
  CUdeviceptr counter = zeroed(4);
  uint32_t expected = 0;
  void *arguments[] = {&counter, &expected};
  KernelNode wanted = {check, 1, 1, 1, 1, 1, 1, 64, arguments, NULL}, v1;
  KernelNodeV2 v2;
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec exec;
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &wanted));
  expected = 77; /* the node has a copy */
  OK(cuGraphKernelNodeGetParams(node, &v1));
  see("function_is_the_one_given", v1.function == check);
  see("shared_bytes", v1.shared);
  see("pointer_argument_is_kept", *(CUdeviceptr *)v1.parameters[0] == counter);
  see("word_argument", *(uint32_t *)v1.parameters[1]);
  see("packed_form", v1.extra != NULL);
  OK(cuGraphKernelNodeGetParams_v2(node, &v2));
  see("v2_function_is_the_one_given", v2.v1.function == check);
  see("v2_grid_x", v2.v1.grid_x);

  v1.grid_x = 3;
  OK(cuGraphKernelNodeSetParams(node, &v1)); /* read, change one thing, write back */
  OK(cuGraphKernelNodeGetParams(node, &v2.v1));
  see("changed_grid_x", v2.v1.grid_x);
  see("argument_after_write_back", *(uint32_t *)v2.v1.parameters[1]);
  v2.v1.grid_x = 1;
  OK(cuGraphKernelNodeSetParams(node, &v2.v1));
  OK(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
  OK(cuGraphLaunch(exec, NULL));
  OK(cuCtxSynchronize());
  see("counter_after_launch", word(counter));

  CUstream stream;
  size_t count = 1;
  OK(cuStreamCreate(&stream, 1));
  OK(cuStreamBeginCapture_v2(stream, 0));
  OK(increment(kernel(module, "emu_increment"), counter, stream));
  OK(cuStreamEndCapture(stream, &graph));
  OK(cuGraphGetNodes(graph, &node, &count));
  OK(cuGraphKernelNodeGetParams_v2(node, &v2));
  see("captured_function_is_the_one_launched", v2.v1.function == kernel(module, "emu_increment"));
  see("captured_argument_is_kept", *(CUdeviceptr *)v2.v1.parameters[0] == counter);

  size_t offset, bytes;
  OK(cuFuncGetParamInfo(check, 1, &offset, &bytes));
  see("second_parameter_offset", (long long)offset);
  see("second_parameter_bytes", (long long)bytes);
  see("third_parameter", cuFuncGetParamInfo(check, 2, &offset, &bytes));
  return 0;
}
