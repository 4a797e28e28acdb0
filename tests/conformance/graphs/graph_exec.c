/* Executable graphs: their own copy, changed node by node or as a whole, never running twice at the same time. */
#include <unistd.h>

#include "../graphs.h"

static CUgraph pair_of(CUfunction check, CUdeviceptr counter, uint32_t first, CUgraphNode nodes[2]) {
  CUgraph graph = new_graph();
  nodes[0] = add_check(graph, NULL, check, counter, first);
  nodes[1] = add_check(graph, &nodes[0], check, counter, first + 1);
  return graph;
}

static void updates(CUfunction check) {
  CUdeviceptr counter = zeroed(4);
  CUgraphNode nodes[2], fresh[2], extra;
  CUgraphExec exec = instantiate(pair_of(check, counter, 0, nodes));
  UpdateInfo info;
  int result;
  run(exec);
  see("before_the_update", word(counter));
  see("update", cuGraphExecUpdate_v2(exec, pair_of(check, counter, 2, fresh), &info));
  see("update_result", info.result);
  run(exec);
  see("after_the_update", word(counter));

  CUgraph more = pair_of(check, counter, 0, fresh);
  OK(cuGraphAddEmptyNode(&extra, more, &fresh[1], 1));
  see("more_nodes", cuGraphExecUpdate_v2(exec, more, &info));
  see("more_nodes_result", info.result);
  see("more_nodes_names_none", info.node == NULL);

  CUgraph loose = new_graph();
  fresh[0] = add_check(loose, NULL, check, counter, 0);
  fresh[1] = add_check(loose, NULL, check, counter, 0);
  see("other_edges", cuGraphExecUpdate(exec, loose, &extra, &result));
  see("other_edges_result", result);

  CUgraph other = new_graph();
  fresh[0] = add_check(other, NULL, check, counter, 0);
  OK(cuGraphAddEmptyNode(&extra, other, &fresh[0], 1));
  see("other_type", cuGraphExecUpdate_v2(exec, other, &info));
  see("other_type_result", info.result);
  see("other_type_node", info.node == extra);
  OK(cuMemsetD8_v2(counter, 2, 1));
  run(exec);
  see("refused_updates_change_nothing", word(counter));
}

static void changes(CUcontext context, CUfunction check) {
  CUdeviceptr counter = zeroed(8);
  CUgraph graph = new_graph(), inner = new_graph(), fresh = new_graph(), two = new_graph(), embedded;
  MemsetNode fill = {counter + 4, 0, 5, 4, 1, 1}, back;
  CUgraphNode first = add_check(graph, NULL, check, counter, 0), second, child, in_child;
  unsigned enabled;
  OK(cuGraphAddMemsetNode(&second, graph, &first, 1, &fill, context));
  add_check(inner, NULL, check, counter, 1);
  OK(cuGraphAddChildGraphNode(&child, graph, &second, 1, inner));
  CUgraphExec exec = instantiate(graph);
  fill.value = 6;
  see("exec_memset", cuGraphExecMemsetNodeSetParams(exec, second, &fill, context));
  OK(cuGraphMemsetNodeGetParams(second, &back));
  see("graph_is_not_changed", back.value);
  run(exec);
  see("exec_memset_value", word(counter + 4));
  see("child_ran", word(counter));

  OK(cuGraphNodeGetEnabled(exec, second, &enabled));
  see("enabled", enabled);
  see("disable", cuGraphNodeSetEnabled(exec, second, 0));
  see("disable_a_child", cuGraphNodeSetEnabled(exec, child, 0));
  OK(cuMemsetD8_v2(counter, 0, 8));
  run(exec);
  see("disabled_node", word(counter + 4));
  see("the_others", word(counter));

  OK(cuMemsetD8_v2(counter, 0, 8));
  add_check(fresh, NULL, check, counter, 7);
  see("change_child", cuGraphExecChildGraphNodeSetParams(exec, child, fresh));
  run(exec);
  see("changed_child_expects_another", word(counter) == 0xdeadbeef);
  in_child = add_check(two, NULL, check, counter, 0);
  add_check(two, &in_child, check, counter, 0);
  see("child_of_other_shape", cuGraphExecChildGraphNodeSetParams(exec, child, two) != 0);

  OK(cuGraphChildGraphNodeGetGraph(child, &embedded));
  size_t one = 1;
  OK(cuGraphGetNodes(embedded, &in_child, &one));
  uint32_t expected = 1;
  void *arguments[] = {&counter, &expected};
  KernelNode again = {check, 1, 1, 1, 1, 1, 1, 0, arguments, NULL};
  see("node_inside_a_child", cuGraphExecKernelNodeSetParams(exec, in_child, &again));
  OK(cuMemsetD8_v2(counter, 0, 8));
  OK(cuGraphDestroy(graph)); /* the executable graph is a copy */
  run(exec);
  see("after_the_graph_is_gone", word(counter));
}

/* Two streams that know nothing of each other launch the same executable graph, which changes in between. */
static void never_overlaps(CUcontext context, CUfunction check) {
  CUdeviceptr counter = zeroed(4), gate = zeroed(4);
  CUgraph graph = new_graph();
  MemOp wait_for_gate = {WAIT_32, gate, 1, EQUAL, {0}};
  const BatchNode hold = {context, 1, &wait_for_gate, 0};
  CUgraphNode first = add_check(graph, NULL, check, counter, 0), middle, last;
  OK(cuGraphAddBatchMemOpNode(&middle, graph, &first, 1, &hold));
  last = add_check(graph, &middle, check, counter, 1);
  CUgraphExec exec = instantiate(graph);
  OK(cuGraphLaunch(exec, new_stream(1)));
  uint32_t expected = 2;
  void *arguments[] = {&counter, &expected};
  const KernelNode again = {check, 1, 1, 1, 1, 1, 1, 0, arguments, NULL};
  OK(cuGraphExecKernelNodeSetParams(exec, first, &again)); /* the launch that is under way keeps its own */
  expected = 3;
  OK(cuGraphExecKernelNodeSetParams(exec, last, &again));
  OK(cuGraphLaunch(exec, new_stream(1)));
  usleep(2000); /* enough for a second run that does not wait */
  OK(cuStreamWriteValue32_v2(new_stream(1), gate, 1, 0));
  OK(cuCtxSynchronize());
  see("second_run_after_the_first", word(counter));
}

static void forms(void) {
  CUgraph graph = new_graph(), ring = new_graph();
  CUgraphNode a, b;
  CUgraphExec exec;
  uint64_t flags = 7;
  OK(cuGraphAddEmptyNode(&a, ring, NULL, 0));
  OK(cuGraphAddEmptyNode(&b, ring, &a, 1));
  see("ring_is_refused", cuGraphAddDependencies(ring, &b, &a, 1) != 0 || cuGraphInstantiate_v2(&exec, ring, NULL, NULL, 0) != 0);
  see("with_flags", cuGraphInstantiateWithFlags(&exec, graph, AUTO_FREE_ON_LAUNCH));
  OK(cuGraphExecGetFlags(exec, &flags));
  see("flags", (long long)flags);
  see("upload", cuGraphUpload(exec, NULL));
  run(exec); /* of no node */
  see("unknown_flags", cuGraphInstantiateWithFlags(&exec, graph, 1ull << 40));
  see("no_graph", cuGraphInstantiateWithFlags(&exec, NULL, 0));
}

int main(void) {
  CUcontext context;
  CUmodule module = open_device(&context);
  CUfunction check = kernel(module, "emu_check_order");
  updates(check);
  changes(context, check);
  never_overlaps(context, check);
  forms();
  return 0;
}
