#include "libcuda/graph/graph.hpp"

#include <algorithm>
#include <set>

namespace emu {

GraphNode& Graph::add(Work work, std::vector<GraphNode*> after) {
  for (size_t i = 0; i < after.size(); ++i) {
    require(&after[i]->graph == this && std::find(after.begin(), after.begin() + static_cast<ptrdiff_t>(i), after[i]) ==
                                            after.begin() + static_cast<ptrdiff_t>(i),
            CUDA_ERROR_INVALID_VALUE);
  }
  nodes.push_back(std::make_unique<GraphNode>(*this, std::move(work)));
  nodes.back()->after = std::move(after);
  return *nodes.back();
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

std::unique_ptr<Graph> Graph::copy(NodeMap& copies) const {
  auto made = std::make_unique<Graph>();
  made->child = child;
  for (const auto& node : nodes) {
    GraphNode& twin = made->add(node->work, {});
    copies[node.get()] = made->copied_from[node.get()] = &twin;
    if (auto* inner = std::get_if<ChildNode>(&twin.work.body)) inner->graph = inner->graph->copy(copies);
  }
  for (const auto& node : nodes) {
    for (const GraphNode* before : node->after) copies[node.get()]->after.push_back(copies.at(before));
  }
  made->users = users;
  return made;
}

std::vector<std::pair<GraphNode*, GraphNode*>> Graph::edges() const {
  std::vector<std::pair<GraphNode*, GraphNode*>> all;
  for (const auto& node : nodes) {
    for (GraphNode* before : node->after) all.emplace_back(node.get(), before);
  }
  return all;
}

std::vector<GraphNode*> Graph::dependents_of(const GraphNode& node) const {
  std::vector<GraphNode*> found;
  for (const auto& [later, before] : edges()) {
    if (before == &node) found.push_back(later);
  }
  return found;
}

bool Graph::has_memory_nodes() const {
  return std::any_of(nodes.begin(), nodes.end(), [](const auto& node) {
    const auto* inner = std::get_if<ChildNode>(&node->work.body);
    return node->type() == NodeType::mem_alloc || node->type() == NodeType::mem_free ||
           (inner != nullptr && inner->graph->has_memory_nodes());
  });
}

GraphNode& node_of(CUgraphNode handle) { return from_handle<GraphNode>(handle, CUDA_ERROR_INVALID_VALUE); }
Graph& graph_of(CUgraph handle) { return from_handle<Graph>(handle, CUDA_ERROR_INVALID_VALUE); }

std::vector<GraphNode*> nodes_of(const CUgraphNode* handles, size_t count) {
  require(count == 0 || handles != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::vector<GraphNode*> nodes;
  for (size_t i = 0; i < count; ++i) nodes.push_back(&node_of(handles[i]));
  return nodes;
}

void require_full_edges(const CUgraphEdgeData* edges, size_t count) {
  for (size_t i = 0; edges != nullptr && i < count; ++i)
    require(edges[i].from_port == 0 && edges[i].to_port == 0 && edges[i].type == 0, CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace emu
