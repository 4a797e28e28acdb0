/* Capture: what streams, forks and joins become, and what may be asked and changed meanwhile. */
#include "../graphs.h"

static CUfunction g_increment;
static CUdeviceptr g_counter;

static void fork_and_join(void) {
  CUstream stream = new_stream(1), fork = new_stream(1);
  CUevent event = new_event(), joined = new_event();
  CUgraph graph;
  CUgraphNode nodes[3];
  size_t count = 3;
  OK(cuStreamBeginCapture_v2(stream, GLOBAL));
  see("state", capture_state(stream));
  see("other_stream", capture_state(fork));
  OK(increment(g_increment, g_counter, stream));
  OK(cuEventRecord(event, stream));
  OK(cuStreamWaitEvent(fork, event, 0));
  see("forked_stream", capture_state(fork));
  OK(increment(g_increment, g_counter, fork));
  OK(cuEventRecord(joined, fork));
  OK(cuStreamWaitEvent(stream, joined, 0));
  OK(increment(g_increment, g_counter, stream));
  see("end", cuStreamEndCapture(stream, &graph));
  see("state_after", capture_state(stream) + capture_state(fork));
  OK(cuGraphGetNodes(graph, nodes, &count));
  see("nodes", (long long)count);
  CUgraphNode before[3];
  size_t earlier = 3;
  OK(cuGraphNodeGetDependencies(nodes[2], before, &earlier));
  see("last_waits_for_the_fork", before[0] == nodes[1] || (earlier > 1 && before[1] == nodes[1]));
  see("nothing_ran", word(g_counter));
  CUgraphExec exec = instantiate(graph);
  OK(cuGraphLaunch(exec, stream));
  OK(cuGraphLaunch(exec, fork));
  OK(cuCtxSynchronize());
  see("two_launches", word(g_counter));
}

static void kinds_of_nodes(void) {
  CUstream stream = new_stream(1);
  CUevent event = new_event();
  CUgraph graph;
  CUgraphNode nodes[6];
  MemsetNode fill;
  CopyNode copy;
  size_t count = 6;
  void *pinned;
  OK(cuMemHostAlloc(&pinned, 64, 0));
  OK(cuStreamBeginCapture_v2(stream, GLOBAL));
  OK(cuMemsetD32Async(g_counter, 7, 1, stream));
  OK(cuMemcpyDtoHAsync_v2(pinned, g_counter, 4, stream));
  OK(cuLaunchHostFunc(stream, free, NULL));
  see("external_record", cuEventRecordWithFlags(event, stream, 1));
  see("external_wait", cuStreamWaitEvent(stream, event, 1));
  OK(cuStreamEndCapture(stream, &graph));
  OK(cuGraphGetNodes(graph, nodes, &count));
  see("kinds", (long long)count);
  see("memset_node", node_type(nodes[0]) == NODE_MEMSET);
  see("memcpy_node", node_type(nodes[1]) == NODE_MEMCPY);
  see("host_node", node_type(nodes[2]) == NODE_HOST);
  see("record_node", node_type(nodes[3]) == NODE_RECORD);
  see("wait_node", node_type(nodes[4]) == NODE_WAIT);
  OK(cuGraphMemsetNodeGetParams(nodes[0], &fill));
  see("memset_params", fill.target == g_counter && fill.value == 7 && fill.element_size == 4 && fill.width == 1);
  OK(cuGraphMemcpyNodeGetParams(nodes[1], &copy));
  see("memcpy_bytes", (long long)copy.width);
  run(instantiate(graph));
  see("event_of_the_graph", cuEventQuery(event));
  see("captured_copy", *(int *)pinned);
  see("external_outside_a_capture_fails", cuEventRecordWithFlags(event, stream, 1) != 0);
}

static void asked_and_changed(void) {
  CUstream stream = new_stream(1);
  CUgraph seen, graph;
  CUgraphNode first, own;
  const CUgraphNode *tail;
  unsigned long long id = 0, next = 0;
  size_t count;
  int state;
  OK(cuStreamGetCaptureInfo_v2(stream, &state, &id, NULL, NULL, NULL));
  see("info_without_capture", state);
  OK(cuStreamBeginCapture_v2(stream, THREAD_LOCAL));
  OK(increment(g_increment, g_counter, stream));
  OK(cuStreamGetCaptureInfo_v2(stream, &state, &id, &seen, &tail, &count));
  see("info_state", state);
  see("info_dependencies", (long long)count);
  first = tail[0];
  OK(cuGraphAddEmptyNode(&own, seen, &first, 1));
  see("set_dependencies", cuStreamUpdateCaptureDependencies(stream, &own, 1, 1));
  OK(increment(g_increment, g_counter, stream));
  OK(cuStreamGetCaptureInfo_v2(stream, &state, NULL, NULL, &tail, &count));
  OK(cuGraphNodeGetDependencies(tail[0], NULL, &count));
  CUgraphNode before;
  OK(cuGraphNodeGetDependencies(tail[0], &before, &count));
  see("next_node_depends_on_it", before == own);
  see("add_dependencies", cuStreamUpdateCaptureDependencies(stream, &first, 1, 0));
  OK(cuStreamGetCaptureInfo_v2(stream, &state, NULL, NULL, NULL, &count));
  see("dependencies_then", (long long)count);
  OK(cuStreamEndCapture(stream, &graph));
  see("same_graph", graph == seen);
  OK(cuStreamBeginCapture_v2(stream, RELAXED));
  OK(cuStreamGetCaptureInfo_v2(stream, &state, &next, NULL, NULL, NULL));
  see("another_id", next != id);
  OK(cuStreamEndCapture(stream, &graph));
  see("empty_capture", node_count(graph));
}

static void into_a_graph(void) {
  CUstream stream = new_stream(1);
  CUgraph graph = new_graph(), ended;
  CUgraphNode root, nodes[2], before;
  size_t count = 2;
  OK(cuGraphAddEmptyNode(&root, graph, NULL, 0));
  see("begin_to_graph", cuStreamBeginCaptureToGraph(stream, graph, &root, NULL, 1, GLOBAL));
  OK(increment(g_increment, g_counter, stream));
  OK(cuStreamEndCapture(stream, &ended));
  see("it_is_that_graph", ended == graph);
  OK(cuGraphGetNodes(graph, nodes, &count));
  see("its_nodes", (long long)count);
  count = 1;
  OK(cuGraphNodeGetDependencies(nodes[1], &before, &count));
  see("captured_after_the_root", before == root);
}

int main(void) {
  CUcontext context;
  CUmodule module = open_device(&context);
  g_increment = kernel(module, "emu_increment");
  g_counter = zeroed(4);
  fork_and_join();
  kinds_of_nodes();
  asked_and_changed();
  into_a_graph();
  return 0;
}
