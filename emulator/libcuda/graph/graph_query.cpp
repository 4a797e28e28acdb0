// What may be asked about a graph's shape.
#include <algorithm>
#include <cstdio>

#include "libcuda/graph/graph.hpp"

using namespace emu;

namespace {

// The API's way to give a list: count only, or as many as there is room for, the rest of the room set to null.
CUresult give(const std::vector<GraphNode*>& nodes, CUgraphNode* out, size_t* count) {
  require(count != nullptr, CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; out != nullptr && i < *count; ++i)
    out[i] = to_handle<CUgraphNode>(i < nodes.size() ? nodes[i] : nullptr);
  *count = out == nullptr ? nodes.size() : std::min(*count, nodes.size());
  return CUDA_SUCCESS;
}

CUresult dependencies(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* edges, size_t* count,
                      const char* call = __builtin_FUNCTION()) {
  return api([&] {
    give(node_of(node).after, out, count);
    for (size_t i = 0; out != nullptr && edges != nullptr && i < *count; ++i) edges[i] = {};
  }, call);
}

CUresult dependents(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* edges, size_t* count,
                    const char* call = __builtin_FUNCTION()) {
  return api([&] {
    const GraphNode& node = node_of(handle);
    give(node.graph.dependents_of(node), out, count);
    for (size_t i = 0; out != nullptr && edges != nullptr && i < *count; ++i) edges[i] = {};
  }, call);
}

CUresult edges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count,
               const char* call = __builtin_FUNCTION()) {
  return api([&] {
    require((from == nullptr) == (to == nullptr) && count != nullptr, CUDA_ERROR_INVALID_VALUE);
    std::vector<GraphNode*> sources;
    std::vector<GraphNode*> targets;
    for (const auto& [later, before] : graph_of(handle).edges()) {
      sources.push_back(before);
      targets.push_back(later);
    }
    size_t room = *count;
    give(sources, from, &room);
    give(targets, to, count);
    for (size_t i = 0; from != nullptr && data != nullptr && i < *count; ++i) data[i] = {};
  }, call);
}

const char* name_of(NodeType type) {
  switch (type) {
    case NodeType::kernel:
      return "KERNEL";
    case NodeType::memcpy:
      return "MEMCPY";
    case NodeType::memset:
      return "MEMSET";
    case NodeType::host:
      return "HOST";
    case NodeType::graph:
      return "GRAPH";
    case NodeType::empty:
      return "EMPTY";
    case NodeType::event_wait:
      return "EVENT_WAIT";
    case NodeType::event_record:
      return "EVENT_RECORD";
    case NodeType::mem_alloc:
      return "MEM_ALLOC";
    case NodeType::mem_free:
      return "MEM_FREE";
    case NodeType::batch_mem_op:
      return "BATCH_MEM_OP";
  }
  return "?";
}

void print(FILE* file, const Graph& graph, int& clusters) {
  const int cluster = clusters++;
  fprintf(file, "subgraph cluster_%d {\nlabel=\"graph_%d\"\n", cluster, cluster);
  for (const auto& node : graph.nodes) {
    const char* kernel = node->work.commands.empty() || node->work.commands.front().kernel == nullptr
                             ? ""
                             : node->work.commands.front().kernel->c_str();
    fprintf(file, "\"%p\" [label=\"%s %s\"]\n", static_cast<const void*>(node.get()), name_of(node->type()), kernel);
  }
  for (const auto& [later, before] : graph.edges())
    fprintf(file, "\"%p\" -> \"%p\"\n", static_cast<const void*>(before), static_cast<const void*>(later));
  for (const auto& node : graph.nodes) {
    if (const auto* inner = std::get_if<ChildNode>(&node->work.body)) print(file, *inner->graph, clusters);
  }
  fprintf(file, "}\n");
}

}  // namespace

CU_EXPORT CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* out, size_t* count) {
  return api([&] {
    std::vector<GraphNode*> all;
    for (const auto& node : graph_of(handle).nodes) all.push_back(node.get());
    give(all, out, count);
  });
}

CU_EXPORT CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode* out, size_t* count) {
  return api([&] {
    std::vector<GraphNode*> roots;
    for (const auto& node : graph_of(handle).nodes) {
      if (node->after.empty()) roots.push_back(node.get());
    }
    give(roots, out, count);
  });
}

CU_EXPORT CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return edges(graph, from, to, nullptr, count);
}

CU_EXPORT CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                                      size_t* count) {
  return edges(graph, from, to, data, count);
}

CU_EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* out, size_t* count) {
  return dependencies(node, out, nullptr, count);
}

CU_EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data,
                                                 size_t* count) {
  return dependencies(node, out, data, count);
}

CU_EXPORT CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* out, size_t* count) {
  return dependents(node, out, nullptr, count);
}

CU_EXPORT CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data,
                                                   size_t* count) {
  return dependents(node, out, data, count);
}

CU_EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, int* type) {
  return api([&] {
    require(type != nullptr, CUDA_ERROR_INVALID_VALUE);
    *type = static_cast<int>(node_of(node).type());
  });
}

CU_EXPORT CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* out) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = to_handle<CUgraph>(body_of<ChildNode>(node).graph.get());
  });
}

// Kinds of nodes, names of kernels and edges; no flag asks for something that is left out here.
CU_EXPORT CUresult cuGraphDebugDotPrint(CUgraph handle, const char* path, unsigned) {
  return api([&] {
    const Graph& graph = graph_of(handle);
    require(path != nullptr, CUDA_ERROR_INVALID_VALUE);
    FILE* file = fopen(path, "we");
    require(file != nullptr, CUDA_ERROR_OPERATING_SYSTEM);
    fprintf(file, "digraph dot {\n");
    int clusters = 0;
    print(file, graph, clusters);
    fprintf(file, "}\n");
    require(fclose(file) == 0, CUDA_ERROR_OPERATING_SYSTEM);
  });
}
