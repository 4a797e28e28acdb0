// Executable graphs: what cuGraphLaunch runs.
#pragma once

#include "libcuda/graph/graph.hpp"

namespace emu {

// Numbers of CUgraphExecUpdateResult.
enum class UpdateResult : int {
  success = 0,
  error = 1,
  topology_changed = 2,
  node_type_changed = 3,
  parameters_changed = 5,
  not_supported = 6,
  unsupported_function_change = 7,
};

struct UpdateReport {
  UpdateResult result = UpdateResult::success;
  GraphNode* node = nullptr;  // of the new graph, where it does not fit
  GraphNode* from = nullptr;  // its dependency that does not
};

enum InstantiateFlags : unsigned { kAutoFreeOnLaunch = 1, kUpload = 2, kDeviceLaunch = 4, kUseNodePriority = 8 };

// Has a copy of the graph: what becomes of the graph later does not matter. Nodes are named by the graph's handles.
struct GraphExec : Object {
  static constexpr ObjectKind kKind = ObjectKind::graph_exec;
  // Throws NOT_SUPPORTED for device launch and for a second executable copy of a graph with memory nodes.
  GraphExec(Graph& graph, uint64_t instantiate_flags);
  ~GraphExec();
  // Throws INVALID_VALUE when it has no such node.
  GraphNode& own(CUgraphNode node);
  // Launches from now on do this in the node's place; throws INVALID_VALUE when the kind of work is another.
  void replace(CUgraphNode node, Work work);
  // Takes over the parameters of a graph with the same nodes and dependencies: all or, with a report, none.
  UpdateReport update(const Graph& graph);
  void update_child(CUgraphNode node, const Graph& child);
  void launch(Stream& stream);

  const uint64_t flags;

 private:
  void flatten(const Graph& graph);

  std::unique_ptr<Graph> graph_;
  NodeMap own_;  // the program's node -> its copy in graph_
  std::shared_ptr<int> instance_ = std::make_shared<int>(0);
  std::vector<GraphNode*> order_;  // all nodes, child graphs' in their place
  GraphMemoryUse memory_;
  // Where it was launched last: an exec never overlaps itself.
  Session* last_session_ = nullptr;
  Health last_health_;
  int last_slot_ = kNone;
  uint64_t last_seq_ = 0;
};

// Finds which node of `fresh` stands for which of `old`; throws nothing, reports what does not fit.
UpdateReport pair_graphs(const Graph& old, const Graph& fresh, NodeMap& pairs);

// A node does this from now on; throws INVALID_VALUE when the kind of work is another.
void change(CUgraphNode node, Work work);

// The calls that change a node by its parameters, in a graph and in an executable one.
template <typename Parameters>
CUresult set_parameters(CUgraphNode node, const Parameters* parameters, const char* call = __builtin_FUNCTION()) {
  return api([&] {
    require(parameters != nullptr, CUDA_ERROR_INVALID_VALUE);
    change(node, work_of(*parameters));
  }, call);
}

template <typename Parameters>
CUresult set_parameters(CUgraphExec exec, CUgraphNode node, const Parameters* parameters,
                        const char* call = __builtin_FUNCTION()) {
  return api([&] {
    require(parameters != nullptr, CUDA_ERROR_INVALID_VALUE);
    from_handle<GraphExec>(exec).replace(node, work_of(*parameters));
  }, call);
}

}  // namespace emu
