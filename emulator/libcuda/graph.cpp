#include "graph.hpp"

#include <algorithm>
#include <set>

#include "copy.hpp"
#include "launch.hpp"

namespace emu {

GraphNode* Graph::add(NodeType type, Command command, std::vector<GraphNode*> after) {
  nodes.push_back(std::make_unique<GraphNode>(type, std::move(command)));
  nodes.back()->after = std::move(after);
  return nodes.back().get();
}

std::vector<GraphNode*> Graph::ordered() const {
  std::vector<GraphNode*> order;
  std::set<const GraphNode*> placed;
  // Nodes mostly come after what they depend on already: one pass does it, unless edges were added later.
  while (order.size() < nodes.size()) {
    const size_t before = order.size();
    for (const auto& node : nodes) {
      const bool ready =
          std::all_of(node->after.begin(), node->after.end(), [&](const GraphNode* n) { return placed.contains(n); });
      if (!ready || placed.contains(node.get())) continue;
      placed.insert(node.get());
      order.push_back(node.get());
    }
    require(order.size() > before, CUDA_ERROR_INVALID_VALUE);
  }
  return order;
}

GraphExec::GraphExec(const Graph& graph) : Object(kKind) {
  for (const GraphNode* node : graph.ordered()) {
    index_[node] = steps_.size();
    steps_.emplace_back(node, node->command);
  }
}

Command& GraphExec::command(const GraphNode* node) {
  const auto found = index_.find(node);
  require(found != index_.end(), CUDA_ERROR_INVALID_VALUE);
  return steps_[found->second].second;
}

// The nodes run one after the other in the stream: the sum of their durations, no claim about a real device's overlap.
void GraphExec::launch(Stream& stream) {
  if (stream.capture != nullptr) {
    for (const auto& step : steps_) record(stream, step.second);
    return;
  }
  Session& session = stream.context->session();
  Queue& queue = *stream.queue;
  if (last_slot_ != kNone && last_slot_ != queue.slot)
    session.enqueue(queue, Command{.wait_stream = last_slot_, .wait_seq = last_seq_});
  for (const auto& step : steps_) last_seq_ = session.enqueue(queue, step.second);
  if (!steps_.empty()) last_slot_ = queue.slot;
}

Command command_of(const CUDA_MEMSET_NODE_PARAMS& node) {
  return fill_command(node.dst, node.pitch, node.value, node.elementSize, node.width, node.height);
}

NodeType node_type(const Command& command) {
  if (command.prompt || command.condition) return NodeType::batch_mem_op;
  switch (command.kind) {
    case OpKind::kernel:
      return NodeType::kernel;
    case OpKind::fill:
      return NodeType::memset;
    case OpKind::copy_in:
    case OpKind::copy_out:
      return NodeType::memcpy;
    case OpKind::host:
      return NodeType::host;
    case OpKind::marker:
      break;
  }
  return NodeType::empty;
}

}  // namespace emu

using namespace emu;

namespace {

std::vector<GraphNode*> nodes_of(const CUgraphNode* handles, size_t count) {
  std::vector<GraphNode*> nodes;
  for (size_t i = 0; i < count; ++i) nodes.push_back(&from_handle<GraphNode>(handles[i], CUDA_ERROR_INVALID_VALUE));
  return nodes;
}

CUresult add_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count, NodeType type,
                  const std::function<Command()>& command, const char* call = __builtin_FUNCTION()) {
  return api([&] {
    require(out != nullptr && (count == 0 || after != nullptr), CUDA_ERROR_INVALID_VALUE);
    *out = to_handle<CUgraphNode>(
        from_handle<Graph>(graph, CUDA_ERROR_INVALID_VALUE).add(type, command(), nodes_of(after, count)));
  }, call);
}

template <typename Parameters>
CUresult add_kernel_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                         const Parameters* node, const char* call = __builtin_FUNCTION()) {
  std::unique_ptr<KernelLaunch> launch;
  const CUresult result = add_node(out, graph, after, count, NodeType::kernel, [&] {
    require(node != nullptr, CUDA_ERROR_INVALID_VALUE);
    launch = launch_of(*node);
    return command_of(*node);
  }, call);
  if (result == CUDA_SUCCESS) from_handle<GraphNode>(*out).launch = std::move(launch);
  return result;
}

template <typename Parameters>
CUresult set_parameters(CUgraphExec exec, CUgraphNode node, const Parameters* parameters,
                        const char* call = __builtin_FUNCTION()) {
  return api([&] {
    require(parameters != nullptr, CUDA_ERROR_INVALID_VALUE);
    from_handle<GraphExec>(exec).command(reinterpret_cast<const GraphNode*>(node)) = command_of(*parameters);
  }, call);
}

CUresult instantiate(CUgraphExec* out, CUgraph graph, const char* call = __builtin_FUNCTION()) {
  return api([&] {
    driver();
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = to_handle<CUgraphExec>(new GraphExec(from_handle<Graph>(graph, CUDA_ERROR_INVALID_VALUE)));
  }, call);
}

}  // namespace

CU_EXPORT CUresult cuGraphCreate(CUgraph* out, unsigned) {
  return api([&] {
    driver();
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = to_handle<CUgraph>(new Graph);
  });
}

CU_EXPORT CUresult cuGraphDestroy(CUgraph graph) {
  return api([&] {
    driver();
    delete &from_handle<Graph>(graph, CUDA_ERROR_INVALID_VALUE);
  });
}

CU_EXPORT CUresult cuGraphAddKernelNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* node) {
  return add_kernel_node(out, graph, after, count, node);
}

CU_EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                           const CUDA_KERNEL_NODE_PARAMS_v2* node) {
  return add_kernel_node(out, graph, after, count, node);
}

CU_EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                        const CUDA_MEMCPY3D* node, CUcontext) {
  return add_node(out, graph, after, count, NodeType::memcpy, [&] { return copy_command(box_of(*node)); });
}

CU_EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                        const CUDA_MEMSET_NODE_PARAMS* node, CUcontext) {
  return add_node(out, graph, after, count, NodeType::memset, [&] { return command_of(*node); });
}

CU_EXPORT CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                      const CUDA_HOST_NODE_PARAMS* node) {
  return add_node(out, graph, after, count, NodeType::host, [&] {
    require(node != nullptr && node->fn != nullptr, CUDA_ERROR_INVALID_VALUE);
    return Command{.kind = OpKind::host,
                   .host_function = [call = *node](CUresult status) {
                     if (status == CUDA_SUCCESS) call.fn(call.userData);
                   }};
  });
}

CU_EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count) {
  return add_node(out, graph, after, count, NodeType::empty, [] { return Command{}; });
}

CU_EXPORT CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  return api([&] {
    from_handle<Graph>(graph, CUDA_ERROR_INVALID_VALUE);
    const auto first = nodes_of(from, count);
    const auto second = nodes_of(to, count);
    for (size_t i = 0; i < count; ++i) second[i]->after.push_back(first[i]);
  });
}

CU_EXPORT CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* out, size_t* count) {
  return api([&] {
    const auto& nodes = from_handle<Graph>(handle, CUDA_ERROR_INVALID_VALUE).nodes;
    for (size_t i = 0; out != nullptr && i < *count && i < nodes.size(); ++i)
      out[i] = to_handle<CUgraphNode>(nodes[i].get());
    *count = out == nullptr ? nodes.size() : std::min(*count, nodes.size());
  });
}

CU_EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, int* type) {
  return api([&] { *type = static_cast<int>(from_handle<GraphNode>(node, CUDA_ERROR_INVALID_VALUE).type); });
}

CU_EXPORT CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, size_t) {
  return instantiate(out, graph);
}
CU_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, size_t) {
  return instantiate(out, graph);
}
CU_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long) {
  return instantiate(out, graph);
}

CU_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                                CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  const CUresult result = instantiate(out, graph);
  if (parameters != nullptr) {
    parameters->hErrNode_out = nullptr;
    parameters->result_out = result == CUDA_SUCCESS ? 0 : 1;
  }
  return result;
}

CU_EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                  const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  return set_parameters(exec, node, parameters);
}

CU_EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                     const CUDA_KERNEL_NODE_PARAMS_v2* parameters) {
  return set_parameters(exec, node, parameters);
}

CU_EXPORT CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                  const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext) {
  return set_parameters(exec, node, parameters);
}

CU_EXPORT CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* parameters,
                                                  CUcontext) {
  return api([&] {
    require(parameters != nullptr, CUDA_ERROR_INVALID_VALUE);
    from_handle<GraphExec>(exec).command(reinterpret_cast<const GraphNode*>(node)) = copy_command(box_of(*parameters));
  });
}

CU_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return api([&] { from_handle<GraphExec>(exec).launch(resolve(stream)); });
}

CU_EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  return api([&] {
    from_handle<GraphExec>(exec);
    resolve(stream);
  });
}

CU_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return api([&] {
    driver();
    delete &from_handle<GraphExec>(exec);
  });
}
