// Which parts of a graph may take over another's parameters (CUDA manual, cuGraphExecUpdate).
#include <algorithm>

#include "libcuda/graph/graph_exec.hpp"
#include "libcuda/module/module.hpp"

namespace emu {
namespace {

UpdateReport failure(UpdateResult result, GraphNode* node = nullptr, GraphNode* from = nullptr) {
  return {result, node, from};
}

// Nodes that nothing depends on, in the order in which they were added.
std::vector<GraphNode*> sinks(const Graph& graph) {
  std::vector<GraphNode*> found;
  for (const auto& node : graph.nodes) {
    if (graph.dependents_of(*node).empty()) found.push_back(node.get());
  }
  return found;
}

CUmemorytype side(CUmemorytype type) { return type == CU_MEMORYTYPE_UNIFIED ? CU_MEMORYTYPE_DEVICE : type; }

bool same_memory(const Work& old, const Work& fresh) {
  if (const auto* made = std::get_if<MemoryAllocNode>(&old.body))
    return made->memory == std::get<MemoryAllocNode>(fresh.body).memory;
  if (const auto* gone = std::get_if<MemoryFreeNode>(&old.body))
    return gone->memory == std::get<MemoryFreeNode>(fresh.body).memory;
  return true;
}

UpdateResult check_parameters(const Work& old, const Work& fresh) {
  if (const auto* kernel = std::get_if<KernelNode>(&old.body)) {
    const auto* next = std::get_if<KernelNode>(&fresh.body);
    return kernel->launch->context() == next->launch->context() ? UpdateResult::success
                                                                : UpdateResult::unsupported_function_change;
  }
  if (const auto* copy = std::get_if<CUDA_MEMCPY3D>(&old.body)) {
    const auto& next = std::get<CUDA_MEMCPY3D>(fresh.body);
    const bool same = side(copy->srcMemoryType) == side(next.srcMemoryType) &&
                      side(copy->dstMemoryType) == side(next.dstMemoryType);
    return same ? UpdateResult::success : UpdateResult::parameters_changed;
  }
  if (const auto* fill = std::get_if<CUDA_MEMSET_NODE_PARAMS>(&old.body)) {
    const auto& next = std::get<CUDA_MEMSET_NODE_PARAMS>(fresh.body);
    const bool flat = fill->height <= 1 && next.height <= 1;
    const bool same = fill->height == next.height && fill->width == next.width && fill->pitch == next.pitch &&
                      fill->elementSize == next.elementSize;
    return flat || same ? UpdateResult::success : UpdateResult::parameters_changed;
  }
  return same_memory(old, fresh) ? UpdateResult::success : UpdateResult::not_supported;
}

// Pairs from the sinks towards the roots, dependencies in the order in which they were named.
UpdateReport pair_nodes(const GraphNode& old, GraphNode& fresh, NodeMap& pairs) {
  const auto [place, added] = pairs.emplace(&old, &fresh);
  if (!added) return place->second == &fresh ? UpdateReport{} : failure(UpdateResult::topology_changed, &fresh);
  if (old.after.size() != fresh.after.size()) return failure(UpdateResult::topology_changed, &fresh);
  if (old.type() != fresh.type()) return failure(UpdateResult::node_type_changed, &fresh);
  if (const auto* inner = std::get_if<ChildNode>(&old.work.body)) {
    const UpdateReport report = pair_graphs(*inner->graph, *std::get<ChildNode>(fresh.work.body).graph, pairs);
    if (report.result != UpdateResult::success) return report;
  } else if (const UpdateResult result = check_parameters(old.work, fresh.work); result != UpdateResult::success) {
    return failure(result, &fresh);
  }
  for (size_t i = 0; i < old.after.size(); ++i) {
    const auto paired = pairs.find(old.after[i]);
    if (paired != pairs.end() && paired->second != fresh.after[i])
      return failure(UpdateResult::topology_changed, &fresh, fresh.after[i]);
    const UpdateReport report = pair_nodes(*old.after[i], *fresh.after[i], pairs);
    if (report.result != UpdateResult::success) return report;
  }
  return {};
}

}  // namespace

UpdateReport pair_graphs(const Graph& old, const Graph& fresh, NodeMap& pairs) {
  if (old.nodes.size() != fresh.nodes.size()) return failure(UpdateResult::topology_changed);
  const auto olds = sinks(old);
  const auto news = sinks(fresh);
  if (olds.size() != news.size())
    return failure(UpdateResult::topology_changed, news.size() > olds.size() ? news.back() : nullptr);
  for (size_t i = 0; i < olds.size(); ++i) {
    const UpdateReport report = pair_nodes(*olds[i], *news[i], pairs);
    if (report.result != UpdateResult::success) return report;
  }
  return {};
}

}  // namespace emu

using namespace emu;

namespace {

CUresult update(CUgraphExec exec, CUgraph graph, UpdateReport* report, const char* call = __builtin_FUNCTION()) {
  return api([&] {
    *report = {UpdateResult::error, nullptr, nullptr};
    *report = from_handle<GraphExec>(exec).update(graph_of(graph));
    return report->result == UpdateResult::success ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }, call);
}

}  // namespace

CU_EXPORT CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* node, int* result) {
  UpdateReport report;
  const CUresult code = update(exec, graph, &report);
  if (node != nullptr) *node = to_handle<CUgraphNode>(report.node);
  if (result != nullptr) *result = static_cast<int>(report.result);
  return code;
}

CU_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  UpdateReport report;
  const CUresult code = update(exec, graph, &report);
  if (info != nullptr)
    *info = {static_cast<int>(report.result), to_handle<CUgraphNode>(report.node), to_handle<CUgraphNode>(report.from)};
  return code;
}

CU_EXPORT CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  return api([&] { from_handle<GraphExec>(exec).update_child(node, graph_of(child)); });
}
