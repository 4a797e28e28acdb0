// Graphs: nodes of work with dependencies, built node by node or captured from streams.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "libcuda/graph/graph_node.hpp"
#include "libcuda/graph/user_object.hpp"

namespace emu {

struct GraphNode : Object {
  static constexpr ObjectKind kKind = ObjectKind::node;
  GraphNode(Graph& g, Work w) : Object(kKind), graph(g), work(std::move(w)) {}
  NodeType type() const { return type_of(work.body); }
  Graph& graph;
  Work work;
  std::vector<GraphNode*> after;  // nodes that must be done first, in the order in which they were named
  bool enabled = true;            // only ever false in an executable graph
};

using NodeMap = std::map<const GraphNode*, GraphNode*>;

struct Graph : Object {
  static constexpr ObjectKind kKind = ObjectKind::graph;
  Graph() : Object(kKind) {}
  // Throws INVALID_VALUE for a dependency that is not of this graph or named twice.
  GraphNode& add(Work work, std::vector<GraphNode*> after);
  // The nodes so that each comes after all that it depends on; throws INVALID_VALUE for a cycle.
  std::vector<GraphNode*> ordered() const;
  // A copy with copies of its child graphs. `copies` gets, for every node at any depth, its copy.
  std::unique_ptr<Graph> copy(NodeMap& copies) const;
  // Pairs of (node, a node that it depends on).
  std::vector<std::pair<GraphNode*, GraphNode*>> edges() const;
  std::vector<GraphNode*> dependents_of(const GraphNode& node) const;
  // It has allocation or free nodes, its child graphs included: there are things that may not be done with it.
  bool has_memory_nodes() const;

  std::vector<std::unique_ptr<GraphNode>> nodes;
  NodeMap copied_from;    // of a copy: original node -> node
  UserReferences users;   // what lives as long as the graph and its copies
  bool capturing = false; // a capture adds to it: nothing may be taken away
  bool child = false;     // a node's own: not the program's to destroy
  std::weak_ptr<int> instance;  // exists as long as an executable copy
};

// The node, unless it is none (INVALID_VALUE).
GraphNode& node_of(CUgraphNode handle);
Graph& graph_of(CUgraph handle);
// The parameters of a node of this kind; throws INVALID_VALUE for others.
template <typename Body>
Body& body_of(CUgraphNode handle) {
  Body* body = std::get_if<Body>(&node_of(handle).work.body);
  require(body != nullptr, CUDA_ERROR_INVALID_VALUE);
  return *body;
}
std::vector<GraphNode*> nodes_of(const CUgraphNode* handles, size_t count);
// Dependencies that begin before the node is done do not exist here: throws NOT_SUPPORTED for any.
void require_full_edges(const CUgraphEdgeData* edges, size_t count);

}  // namespace emu
