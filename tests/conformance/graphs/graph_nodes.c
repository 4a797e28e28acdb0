/* Nodes of every kind: that they run in their place, and what they tell about themselves. */
#include "../graphs.h"

static int g_calls;
static void count(void *by) { g_calls += *(int *)by; }

static CUgraphNode dependency_of(CUgraphNode node) {
  CUgraphNode before = NULL;
  size_t room = 1;
  OK(cuGraphNodeGetDependencies(node, &before, &room));
  return before;
}

static void child_graphs(CUfunction check) {
  CUdeviceptr counter = zeroed(4);
  CUgraph outer = new_graph(), inner = new_graph(), embedded;
  CUgraphNode first = add_check(outer, NULL, check, counter, 0), child, in_child, last;
  in_child = add_check(inner, NULL, check, counter, 1);
  add_check(inner, &in_child, check, counter, 2);
  see("child", cuGraphAddChildGraphNode(&child, outer, &first, 1, inner));
  see("child_type", node_type(child));
  last = add_check(outer, &child, check, counter, 3);
  see("outer_nodes", node_count(outer));
  see("last_waits_for_the_child", dependency_of(last) == child);
  add_check(inner, NULL, check, counter, 99); /* the node has a copy */
  OK(cuGraphChildGraphNodeGetGraph(child, &embedded));
  see("child_is_a_copy", embedded != inner);
  see("child_nodes", node_count(embedded));
  OK(cuGraphDestroy(inner));
  run(instantiate(outer));
  see("child_ran_in_its_place", word(counter));
}

static void events(CUfunction check) {
  CUdeviceptr counter = zeroed(4), gate = zeroed(4);
  CUgraph graph = new_graph(), waiting = new_graph();
  CUevent event = new_event(), other = new_event(), found;
  CUgraphNode kernel_node = add_check(graph, NULL, check, counter, 0), record, wait;
  CUstream first = new_stream(1), second = new_stream(1);
  see("event_record", cuGraphAddEventRecordNode(&record, graph, &kernel_node, 1, event));
  see("event_record_type", node_type(record));
  OK(cuGraphEventRecordNodeGetEvent(record, &found));
  see("event_record_event", found == event);
  see("event_wait", cuGraphAddEventWaitNode(&wait, waiting, NULL, 0, other));
  see("event_wait_type", node_type(wait));
  OK(cuGraphEventWaitNodeSetEvent(wait, event));
  add_check(waiting, &wait, check, counter, 1);
  CUgraphExec recorder = instantiate(graph), waiter = instantiate(waiting);
  OK(cuStreamWaitValue32_v2(first, gate, 1, EQUAL));
  OK(cuGraphLaunch(recorder, first));
  see("event_recorded_by_a_graph", cuEventQuery(event));
  OK(cuGraphLaunch(waiter, second));
  see("graph_that_waits", cuStreamQuery(second));
  OK(cuStreamWriteValue32_v2(new_stream(1), gate, 1, 0));
  OK(cuStreamSynchronize(second));
  see("event_waited_for", word(counter));
  see("event_after_the_wait", cuEventQuery(event));
}

static void copies(CUcontext context) {
  CUdeviceptr memory = zeroed(64);
  CUgraph graph = new_graph();
  CUgraphNode fill, copy, host;
  uint32_t *pinned;
  int by = 3;
  OK(cuMemHostAlloc((void **)&pinned, 64, 0));
  memset(pinned, 0, 64);
  MemsetNode seven = {memory, 0, 7, 4, 4, 1}, fill_back;
  CopyNode out = {{0, 0, 0, 0, DEVICE_MEMORY, NULL, memory, NULL, NULL, 0, 0}, {0, 0, 0, 0, HOST_MEMORY, pinned, 0, NULL, NULL, 0, 0}, 16, 1, 1}, copy_back;
  HostNode call = {count, &by}, call_back;
  OK(cuGraphAddMemsetNode(&fill, graph, NULL, 0, &seven, context));
  OK(cuGraphAddMemcpyNode(&copy, graph, &fill, 1, &out, context));
  OK(cuGraphAddHostNode(&host, graph, &copy, 1, &call));
  OK(cuGraphMemsetNodeGetParams(fill, &fill_back));
  see("memset_value", fill_back.value);
  see("memset_width", (long long)fill_back.width);
  OK(cuGraphMemcpyNodeGetParams(copy, &copy_back));
  see("memcpy_target_is_kept", copy_back.target.host == pinned);
  see("memcpy_width", (long long)copy_back.width);
  OK(cuGraphHostNodeGetParams(host, &call_back));
  see("host_function_is_kept", call_back.function == count && call_back.data == &by);
  fill_back.value = 8;
  see("memset_change", cuGraphMemsetNodeSetParams(fill, &fill_back));
  copy_back.width = 12;
  see("memcpy_change", cuGraphMemcpyNodeSetParams(copy, &copy_back));
  run(instantiate(graph));
  see("copied_word", pinned[2]);
  see("word_behind_the_copy", pinned[3]);
  see("host_calls", g_calls);
}

static void generic(CUfunction check) {
  CUdeviceptr counter = zeroed(8);
  CUgraph graph = new_graph();
  CUgraphNode nodes[4];
  AnyNode any = {.type = NODE_EMPTY};
  MemOp write = {WRITE_32, counter, 1, 0, {0}};
  see("generic_empty", cuGraphAddNode(&nodes[0], graph, NULL, 0, &any));
  any = (AnyNode){.type = NODE_BATCH};
  OK(cuCtxGetCurrent(&any.of.batch.context));
  any.of.batch.count = 1;
  any.of.batch.operations = &write;
  see("generic_batch", cuGraphAddNode_v2(&nodes[1], graph, nodes, NULL, 1, &any));
  see("generic_batch_type", node_type(nodes[1]));
  uint32_t expected = 1;
  void *arguments[] = {&counter, &expected};
  any = (AnyNode){.type = NODE_KERNEL};
  any.of.kernel.v1 = (KernelNode){check, 1, 1, 1, 1, 1, 1, 0, arguments, NULL};
  see("generic_kernel", cuGraphAddNode(&nodes[2], graph, &nodes[1], 1, &any));
  any = (AnyNode){.type = NODE_MEMSET};
  any.of.memset.fill = (MemsetNode){counter + 4, 0, 5, 4, 1, 1};
  OK(cuCtxGetCurrent(&any.of.memset.context));
  see("generic_memset", cuGraphAddNode(&nodes[3], graph, &nodes[2], 1, &any));
  any.of.memset.fill.value = 6;
  see("generic_change", cuGraphNodeSetParams(nodes[3], &any));
  CUgraphExec exec = instantiate(graph);
  run(exec);
  see("generic_kernel_after_write", word(counter));
  see("generic_changed_memset", word(counter + 4));
  any.of.memset.fill.value = 9;
  see("generic_change_in_exec", cuGraphExecNodeSetParams(exec, nodes[3], &any));
  run(exec);
  see("generic_exec_memset", word(counter + 4));
}

int main(void) {
  CUcontext context;
  CUmodule module = open_device(&context);
  CUfunction check = kernel(module, "emu_check_order");
  child_graphs(check);
  events(check);
  copies(context);
  generic(check);
  return 0;
}
