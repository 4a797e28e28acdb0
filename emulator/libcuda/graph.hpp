// Graphs: commands with dependencies, recorded once and launched many times; and the capture of streams into them.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "context.hpp"
#include "event.hpp"
#include "kernel_node.hpp"

namespace emu {

struct Graph;

// Numbers of CUgraphNodeType.
enum class NodeType : int { kernel = 0, memcpy = 1, memset = 2, host = 3, graph = 4, empty = 5, batch_mem_op = 12 };

struct GraphNode : Object {
  static constexpr ObjectKind kKind = ObjectKind::node;
  GraphNode(NodeType t, Command c) : Object(kKind), type(t), command(std::move(c)) {}
  const NodeType type;
  Command command;
  std::unique_ptr<KernelLaunch> launch;  // of a kernel node
  std::vector<GraphNode*> after;  // nodes that must be done first
};

struct Graph : Object {
  static constexpr ObjectKind kKind = ObjectKind::graph;
  Graph() : Object(kKind) {}
  GraphNode* add(NodeType type, Command command, std::vector<GraphNode*> after);
  // The nodes so that each comes after all that it depends on; throws INVALID_VALUE for a cycle.
  std::vector<GraphNode*> ordered() const;
  std::vector<std::unique_ptr<GraphNode>> nodes;
};

// An executable copy: its commands are its own, the graph's nodes only name them.
struct GraphExec : Object {
  static constexpr ObjectKind kKind = ObjectKind::graph_exec;
  explicit GraphExec(const Graph& graph);
  Command& command(const GraphNode* node);
  void launch(Stream& stream);

 private:
  std::vector<std::pair<const GraphNode*, Command>> steps_;
  std::map<const GraphNode*, size_t> index_;
  int last_slot_ = kNone;  // where it was launched last: an exec never overlaps itself
  uint64_t last_seq_ = 0;
};

// One capture, shared by all streams that take part in it.
struct Capture {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  Stream* origin = nullptr;
  uint64_t id = 0;
  bool invalidated = false;
};

// A kernel node's two faces: what the device does, and what the program may read back.
Command command_of(const CUDA_KERNEL_NODE_PARAMS_v1& node);
Command command_of(const CUDA_KERNEL_NODE_PARAMS_v2& node);
Command command_of(const CUDA_MEMSET_NODE_PARAMS& node);
std::unique_ptr<KernelLaunch> launch_of(const CUDA_KERNEL_NODE_PARAMS_v1& node);
std::unique_ptr<KernelLaunch> launch_of(const CUDA_KERNEL_NODE_PARAMS_v2& node);

NodeType node_type(const Command& command);
// Adds a call on a captured stream to its graph.
GraphNode& record(Stream& stream, Command command);
// The stream waits for an event that a captured stream recorded: it takes part in that capture from now on.
void join_capture(Stream& stream, const Event& event);

}  // namespace emu
