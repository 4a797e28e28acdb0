/* Memory that graphs allocate and free. */
#include "../graphs.h"

enum { PINNED = 1, ON_DEVICE = 1, RESERVED_NOW = 2 };

static AllocNode allocation(size_t bytes) {
  AllocNode node = {.type = PINNED, .location = ON_DEVICE, .device = 0, .bytes = bytes};
  return node;
}

static CUgraphNode add_increment(CUgraph graph, CUgraphNode after, CUfunction function, CUdeviceptr counter) {
  void *arguments[] = {&counter};
  const KernelNode node = {function, 1, 1, 1, 1, 1, 1, 0, arguments, NULL};
  CUgraphNode added;
  OK(cuGraphAddKernelNode(&added, graph, &after, 1, &node));
  return added;
}

static CUgraphNode add_clear(CUgraph graph, CUgraphNode after, CUdeviceptr memory, CUcontext context) {
  const MemsetNode clear = {memory, 0, 0, 4, 1, 1};
  CUgraphNode added;
  OK(cuGraphAddMemsetNode(&added, graph, &after, 1, &clear, context));
  return added;
}

/* Allocated, used and freed inside one graph. */
static void inside(CUcontext context, CUfunction function) {
  CUgraph graph = new_graph(), clone, outer = new_graph();
  CUgraphNode alloc, clear, add, copy, release, child;
  CUgraphExec exec, second;
  AllocNode node = allocation(1 << 20), back;
  CUdeviceptr result = zeroed(4), freed;
  see("alloc", cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &node));
  see("alloc_type", node_type(alloc));
  see("has_an_address", node.pointer != 0);
  OK(cuGraphMemAllocNodeGetParams(alloc, &back));
  see("same_address", back.pointer == node.pointer);
  see("its_bytes", (long long)back.bytes);
  clear = add_clear(graph, alloc, node.pointer, context);
  add = add_increment(graph, clear, function, node.pointer);
  const CopyNode out = {{0, 0, 0, 0, DEVICE_MEMORY, NULL, node.pointer, NULL, NULL, 0, 0}, {0, 0, 0, 0, DEVICE_MEMORY, NULL, result, NULL, NULL, 0, 0}, 4, 1, 1};
  OK(cuGraphAddMemcpyNode(&copy, graph, &add, 1, &out, context));
  see("free", cuGraphAddMemFreeNode(&release, graph, &copy, 1, node.pointer));
  see("free_type", node_type(release));
  OK(cuGraphMemFreeNodeGetParams(release, &freed));
  see("freed_address", freed == node.pointer);
  see("free_twice", cuGraphAddMemFreeNode(&add, graph, &release, 1, node.pointer));
  see("no_clone", cuGraphClone(&clone, graph) != 0);
  see("no_copy_as_child", cuGraphAddChildGraphNode(&child, outer, NULL, 0, graph) != 0);
  see("no_node_is_destroyed", cuGraphDestroyNode(copy) != 0);
  see("no_edge_is_removed", cuGraphRemoveDependencies(graph, &copy, &release, 1) != 0);
  exec = instantiate(graph);
  see("no_second_instance", cuGraphInstantiateWithFlags(&second, graph, 0) != 0);
  run(exec);
  run(exec);
  see("result", word(result));
  see("no_free_from_outside", cuMemFree_v2(node.pointer) != 0);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

/* Allocated by one graph, freed by somebody else. */
static void across(CUcontext context, CUfunction function) {
  CUgraph graph = new_graph(), freeing = new_graph();
  CUgraphNode alloc, clear, release;
  CUgraphExec maker, freer, automatic;
  AllocNode node = allocation(4096);
  OK(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &node));
  clear = add_clear(graph, alloc, node.pointer, context);
  add_increment(graph, clear, function, node.pointer);
  see("free_in_another_graph", cuGraphAddMemFreeNode(&release, freeing, NULL, 0, node.pointer));
  see("then_not_in_its_own", cuGraphAddMemFreeNode(&clear, graph, &alloc, 1, node.pointer));
  maker = instantiate(graph);
  freer = instantiate(freeing);
  run(maker);
  see("used_after_the_launch", word(node.pointer));
  see("launch_while_allocated", cuGraphLaunch(maker, NULL));
  run(freer);
  run(maker);
  see("cuMemFreeAsync", cuMemFreeAsync(node.pointer, NULL));
  OK(cuCtxSynchronize());
  run(maker);
  see("cuMemFree", cuMemFree_v2(node.pointer));
  OK(cuGraphExecDestroy(maker));
  OK(cuGraphInstantiateWithFlags(&automatic, graph, AUTO_FREE_ON_LAUNCH));
  run(automatic);
  see("freed_by_the_next_launch", cuGraphLaunch(automatic, NULL));
  OK(cuCtxSynchronize());
  see("free_at_last", cuMemFree_v2(node.pointer));
}

/* cuMemAllocAsync and cuMemFreeAsync become nodes. */
static void captured(CUfunction function) {
  CUstream stream = new_stream(1);
  CUdeviceptr pointer, result = zeroed(4);
  CUgraph graph;
  CUgraphNode nodes[5];
  size_t room = 5;
  OK(cuStreamBeginCapture_v2(stream, GLOBAL));
  see("alloc_in_a_capture", cuMemAllocAsync(&pointer, 4096, stream));
  OK(cuMemsetD32Async(pointer, 4, 1, stream));
  OK(increment(function, pointer, stream));
  OK(increment(function, result, stream));
  see("free_in_a_capture", cuMemFreeAsync(pointer, stream));
  OK(cuStreamEndCapture(stream, &graph));
  OK(cuGraphGetNodes(graph, nodes, &room));
  see("captured_nodes", (long long)room);
  see("first_allocates", node_type(nodes[0]) == NODE_ALLOC);
  see("last_frees", node_type(nodes[4]) == NODE_FREE);
  CUgraphExec exec = instantiate(graph);
  run(exec);
  run(exec);
  see("captured_runs", word(result));
}

int main(void) {
  CUcontext context;
  CUmodule module = open_device(&context);
  CUfunction function = kernel(module, "emu_increment");
  uint64_t bytes = 1;
  CUgraphNode node;
  AllocNode empty = allocation(0);
  see("no_bytes", cuGraphAddMemAllocNode(&node, new_graph(), NULL, 0, &empty));
  see("free_of_other_memory", cuGraphAddMemFreeNode(&node, new_graph(), NULL, 0, zeroed(4)));
  inside(context, function);
  across(context, function);
  captured(function);
  OK(cuCtxSynchronize());
  see("trim", cuDeviceGraphMemTrim(0));
  OK(cuDeviceGetGraphMemAttribute(0, RESERVED_NOW, &bytes));
  see("reserved_after_trim", (long long)bytes);
  return 0;
}
