// The calls that make graphs and add to them, take away, copy and destroy.
#include <algorithm>

#include "libcuda/graph/capture.hpp"
#include "libcuda/graph/graph_exec.hpp"
#include "libcuda/memory/memory.hpp"

namespace emu {

Work allocation_work(CUDA_MEM_ALLOC_NODE_PARAMS& parameters, Context& context, const Graph& graph) {
  const CUmemPoolProps& pool = parameters.poolProps;
  require(pool.allocType == CU_MEM_ALLOCATION_TYPE_PINNED && pool.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
              pool.location.id == context.device.ordinal && parameters.bytesize > 0,
          CUDA_ERROR_INVALID_VALUE);
  require(pool.handleTypes == 0, CUDA_ERROR_NOT_SUPPORTED);  // no other process can open a graph's memory
  auto memory = std::make_shared<GraphMemory>(context, parameters.bytesize, &graph);
  parameters.dptr = memory->base;
  return {MemoryAllocNode{parameters, std::move(memory)}, {Command{}}};
}

Work free_work(CUdeviceptr pointer, const Graph& graph) {
  auto memory = GraphMemory::to_be_freed_by(pointer, &graph);
  Command command = free_command(memory);
  return {MemoryFreeNode{std::move(memory)}, {std::move(command)}};
}

namespace {

Work child_work(const CUDA_CHILD_GRAPH_NODE_PARAMS& node, const Graph& parent) {
  constexpr int kMove = 1;
  Graph& graph = graph_of(node.graph);
  require(&graph != &parent && !graph.child && !graph.capturing && (node.ownership & ~kMove) == 0,
          CUDA_ERROR_INVALID_VALUE);
  if (node.ownership == kMove) {
    graph.child = true;
    return {ChildNode{std::shared_ptr<Graph>(&graph)}, {}};
  }
  require(!graph.has_memory_nodes(), CUDA_ERROR_NOT_SUPPORTED);
  NodeMap copies;
  std::shared_ptr<Graph> copy = graph.copy(copies);
  copy->child = true;
  return {ChildNode{std::move(copy)}, {}};
}

Work generic_work(CUgraphNodeParams& node, Graph& graph) {
  switch (static_cast<NodeType>(node.type)) {
    case NodeType::kernel:
      return work_of(node.kernel);
    case NodeType::memcpy:
      require(node.memcpy.flags == 0, CUDA_ERROR_INVALID_VALUE);
      return work_of(node.memcpy.copyParams);
    case NodeType::memset:
      return work_of(node.memset);
    case NodeType::host:
      return work_of(node.host);
    case NodeType::graph:
      return child_work(node.graph, graph);
    case NodeType::empty:
      return {EmptyNode{}, {Command{}}};
    case NodeType::event_wait:
      return wait_work(node.event);
    case NodeType::event_record:
      return record_work(node.event);
    case NodeType::mem_alloc:
      return allocation_work(node.alloc, current(), graph);
    case NodeType::mem_free:
      return free_work(node.free, graph);
    case NodeType::batch_mem_op:
      return work_of(node.memOp);
  }
  throw Failure{CUDA_ERROR_NOT_SUPPORTED};  // semaphores of other interfaces, conditional nodes
}

template <typename Make>
CUresult add(CUgraphNode* out, CUgraph handle, const CUgraphNode* after, size_t count, const Make& make,
             const char* call = __builtin_FUNCTION()) {
  return api([&] {
    driver();
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    Graph& graph = graph_of(handle);
    auto dependencies = nodes_of(after, count);
    *out = to_handle<CUgraphNode>(&graph.add(make(graph), std::move(dependencies)));
  }, call);
}

template <typename Parameters>
CUresult add_from(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count, const Parameters* node,
                  const char* call = __builtin_FUNCTION()) {
  return add(out, graph, after, count, [&](Graph&) {
    require(node != nullptr, CUDA_ERROR_INVALID_VALUE);
    return work_of(*node);
  }, call);
}

CUresult add_generic(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, const CUgraphEdgeData* edges,
                     size_t count, CUgraphNodeParams* node, const char* call = __builtin_FUNCTION()) {
  return add(out, graph, after, count, [&](Graph& into) {
    require(node != nullptr, CUDA_ERROR_INVALID_VALUE);
    require_full_edges(edges, count);
    return generic_work(*node, into);
  }, call);
}

void add_edges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  const Graph& graph = graph_of(handle);
  const auto before = nodes_of(from, count);
  const auto after = nodes_of(to, count);
  for (size_t i = 0; i < count; ++i) {
    auto& known = after[i]->after;
    require(&before[i]->graph == &graph && &after[i]->graph == &graph && before[i] != after[i] &&
                std::find(known.begin(), known.end(), before[i]) == known.end(),
            CUDA_ERROR_INVALID_VALUE);
  }
  for (size_t i = 0; i < count; ++i) after[i]->after.push_back(before[i]);
}

void remove_edges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  const Graph& graph = graph_of(handle);
  require(!graph.has_memory_nodes(), CUDA_ERROR_NOT_SUPPORTED);
  const auto before = nodes_of(from, count);
  const auto after = nodes_of(to, count);
  for (size_t i = 0; i < count; ++i) {
    const auto& known = after[i]->after;
    require(&after[i]->graph == &graph && std::find(known.begin(), known.end(), before[i]) != known.end(),
            CUDA_ERROR_INVALID_VALUE);
  }
  for (size_t i = 0; i < count; ++i) std::erase(after[i]->after, before[i]);
}

}  // namespace
}  // namespace emu

using namespace emu;

CU_EXPORT CUresult cuGraphCreate(CUgraph* out, unsigned flags) {
  return api([&] {
    driver();
    require(out != nullptr && flags == 0, CUDA_ERROR_INVALID_VALUE);
    *out = to_handle<CUgraph>(new Graph);
  });
}

CU_EXPORT CUresult cuGraphDestroy(CUgraph handle) {
  return api([&] {
    driver();
    Graph& graph = graph_of(handle);
    require(!graph.child && !graph.capturing, CUDA_ERROR_INVALID_VALUE);
    delete &graph;
  });
}

CU_EXPORT CUresult cuGraphClone(CUgraph* out, CUgraph original) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    const Graph& graph = graph_of(original);
    require(!graph.has_memory_nodes(), CUDA_ERROR_NOT_SUPPORTED);
    NodeMap copies;
    auto clone = graph.copy(copies);
    clone->child = false;
    *out = to_handle<CUgraph>(clone.release());
  });
}

CU_EXPORT CUresult cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph clone) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    const auto& copies = graph_of(clone).copied_from;
    const auto found = copies.find(reinterpret_cast<const GraphNode*>(original));
    require(found != copies.end(), CUDA_ERROR_INVALID_VALUE);
    *out = to_handle<CUgraphNode>(found->second);
  });
}

CU_EXPORT CUresult cuGraphDestroyNode(CUgraphNode handle) {
  return api([&] {
    GraphNode& node = node_of(handle);
    Graph& graph = node.graph;
    require(!graph.capturing, CUDA_ERROR_INVALID_VALUE);
    require(!graph.has_memory_nodes(), CUDA_ERROR_NOT_SUPPORTED);
    for (GraphNode* later : graph.dependents_of(node)) std::erase(later->after, &node);
    std::erase_if(graph.copied_from, [&](const auto& copied) { return copied.second == &node; });
    std::erase_if(graph.nodes, [&](const auto& owned) { return owned.get() == &node; });
  });
}

CU_EXPORT CUresult cuGraphAddKernelNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* node) {
  return add_from(out, graph, after, count, node);
}

CU_EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                           const CUDA_KERNEL_NODE_PARAMS_v2* node) {
  return add_from(out, graph, after, count, node);
}

CU_EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                        const CUDA_MEMCPY3D* node, CUcontext) {
  return add_from(out, graph, after, count, node);
}

CU_EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                        const CUDA_MEMSET_NODE_PARAMS* node, CUcontext) {
  return add_from(out, graph, after, count, node);
}

CU_EXPORT CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                      const CUDA_HOST_NODE_PARAMS* node) {
  return add_from(out, graph, after, count, node);
}

CU_EXPORT CUresult cuGraphAddBatchMemOpNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS* node) {
  return add_from(out, graph, after, count, node);
}

CU_EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                            CUgraph child) {
  return add(out, graph, after, count, [&](const Graph& into) { return child_work({child, 0}, into); });
}

CU_EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count) {
  return add(out, graph, after, count, [](const Graph&) { return Work{EmptyNode{}, {Command{}}}; });
}

CU_EXPORT CUresult cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                             CUevent event) {
  return add(out, graph, after, count, [&](const Graph&) { return record_work(event); });
}

CU_EXPORT CUresult cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                           CUevent event) {
  return add(out, graph, after, count, [&](const Graph&) { return wait_work(event); });
}

CU_EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                          CUDA_MEM_ALLOC_NODE_PARAMS* node) {
  return add(out, graph, after, count, [&](const Graph& into) {
    require(node != nullptr, CUDA_ERROR_INVALID_VALUE);
    return allocation_work(*node, current(), into);
  });
}

CU_EXPORT CUresult cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                         CUdeviceptr pointer) {
  return add(out, graph, after, count, [&](const Graph& into) { return free_work(pointer, into); });
}

CU_EXPORT CUresult cuGraphAddNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                  CUgraphNodeParams* node) {
  return add_generic(out, graph, after, nullptr, count, node);
}

CU_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                     const CUgraphEdgeData* edges, size_t count, CUgraphNodeParams* node) {
  return add_generic(out, graph, after, edges, count, node);
}

CU_EXPORT CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  return api([&] { add_edges(graph, from, to, count); });
}

CU_EXPORT CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                             const CUgraphEdgeData* edges, size_t count) {
  return api([&] {
    require_full_edges(edges, count);
    add_edges(graph, from, to, count);
  });
}

CU_EXPORT CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                             size_t count) {
  return api([&] { remove_edges(graph, from, to, count); });
}

CU_EXPORT CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                                const CUgraphEdgeData* edges, size_t count) {
  return api([&] {
    require_full_edges(edges, count);
    remove_edges(graph, from, to, count);
  });
}
