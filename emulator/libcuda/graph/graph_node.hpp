// What a node of a graph does: the parameters that a program may read back, and the work that a launch enqueues.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "libcuda/context/context.hpp"
#include "libcuda/memory/copy.hpp"
#include "libcuda/stream/event.hpp"
#include "libcuda/graph/graph_api.hpp"
#include "libcuda/graph/graph_memory.hpp"
#include "libcuda/graph/kernel_node.hpp"

namespace emu {

struct Graph;

struct EmptyNode {};
struct KernelNode {
  std::shared_ptr<KernelLaunch> launch;
};
struct ChildNode {
  std::shared_ptr<Graph> graph;  // the node's own
};
struct EventRecordNode {
  CUevent handle;
};
struct EventWaitNode {
  CUevent handle;
};
struct MemoryAllocNode {
  CUDA_MEM_ALLOC_NODE_PARAMS parameters;
  std::shared_ptr<GraphMemory> memory;
};
struct MemoryFreeNode {
  std::shared_ptr<GraphMemory> memory;
};
struct BatchNode {
  CUcontext context;
  std::vector<CUstreamBatchMemOpParams> operations;
  unsigned flags;
};

using NodeBody = std::variant<EmptyNode, KernelNode, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUDA_HOST_NODE_PARAMS,
                              ChildNode, EventRecordNode, EventWaitNode, MemoryAllocNode, MemoryFreeNode, BatchNode>;

// Numbers of CUgraphNodeType.
enum class NodeType : int {
  kernel = 0,
  memcpy = 1,
  memset = 2,
  host = 3,
  graph = 4,
  empty = 5,
  event_wait = 6,
  event_record = 7,
  mem_alloc = 10,
  mem_free = 11,
  batch_mem_op = 12,
};

NodeType type_of(const NodeBody& body);

struct Work {
  NodeBody body;
  std::vector<Command> commands;
  // For what is only known when the graph is launched: enqueues the work itself, and returns its last op's number.
  std::function<std::optional<uint64_t>(Stream&)> at_launch = {};
};

// From the parameters of the calls that add a node, change one, or are captured. They throw what those calls return.
Work work_of(const CUDA_KERNEL_NODE_PARAMS_v1& node);
Work work_of(const CUDA_KERNEL_NODE_PARAMS_v2& node);
Work work_of(const CUDA_MEMCPY3D& node);
Work work_of(const CUDA_MEMSET_NODE_PARAMS& node);
Work work_of(const CUDA_HOST_NODE_PARAMS& node);
Work work_of(const CUDA_BATCH_MEM_OP_NODE_PARAMS& node);
Work record_work(CUevent event);
Work wait_work(CUevent event);

Command command_of(const CUstreamBatchMemOpParams& operation);
Command command_of(const CUDA_HOST_NODE_PARAMS& node);

}  // namespace emu
