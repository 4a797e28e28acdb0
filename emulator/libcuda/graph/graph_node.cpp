#include "libcuda/graph/graph_node.hpp"

#include <array>

#include "libcuda/module/launch.hpp"

namespace emu {

NodeType type_of(const NodeBody& body) {
  // In the order of NodeBody's alternatives.
  static constexpr std::array<NodeType, std::variant_size_v<NodeBody>> kTypes = {
      NodeType::empty,        NodeType::kernel,     NodeType::memcpy,    NodeType::memset,   NodeType::host,        NodeType::graph,
      NodeType::event_record, NodeType::event_wait, NodeType::mem_alloc, NodeType::mem_free, NodeType::batch_mem_op};
  return kTypes[body.index()];
}

namespace {

Grid grid_of(const CUDA_KERNEL_NODE_PARAMS_v1& node) {
  return {{node.gridDimX, node.gridDimY, node.gridDimZ}, {node.blockDimX, node.blockDimY, node.blockDimZ}};
}

Work kernel_work(const CUDA_KERNEL_NODE_PARAMS_v1& node, const void* function) {
  require_shared(function, node.sharedMemBytes);
  auto launch = std::make_shared<KernelLaunch>(function, grid_of(node), node.sharedMemBytes, node.kernelParams, node.extra);
  return {KernelNode{std::move(launch)}, {kernel_command(function, grid_of(node), node.sharedMemBytes, node.kernelParams, node.extra)}};
}

}  // namespace

Work work_of(const CUDA_KERNEL_NODE_PARAMS_v1& node) { return kernel_work(node, node.func); }
Work work_of(const CUDA_KERNEL_NODE_PARAMS_v2& node) {
  const void* kernel = node.kern;
  return kernel_work(node, node.func != nullptr ? node.func : kernel);
}

Work work_of(const CUDA_MEMCPY3D& node) { return {node, {copy_command(box_of(node))}}; }

Work work_of(const CUDA_MEMSET_NODE_PARAMS& node) {
  require(node.width > 0 && node.height > 0, CUDA_ERROR_INVALID_VALUE);
  return {node, {fill_command(node)}};
}

Command command_of(const CUDA_HOST_NODE_PARAMS& node) {
  require(node.fn != nullptr, CUDA_ERROR_INVALID_VALUE);
  return Command{.kind = OpKind::host, .host_function = [node](CUresult status) {
                   if (status == CUDA_SUCCESS) node.fn(node.userData);  // not called in a killed context (CUDA manual)
                 }};
}

Work work_of(const CUDA_HOST_NODE_PARAMS& node) { return {node, {command_of(node)}}; }

Work work_of(const CUDA_BATCH_MEM_OP_NODE_PARAMS& node) {
  constexpr unsigned kMost = 256;
  require(node.paramArray != nullptr && node.count > 0 && node.count <= kMost && node.flags == 0,
          CUDA_ERROR_INVALID_VALUE);
  Work work{BatchNode{node.ctx, {node.paramArray, node.paramArray + node.count}, node.flags}, {}};
  for (unsigned i = 0; i < node.count; ++i) work.commands.push_back(command_of(node.paramArray[i]));
  return work;
}

// Which record of the event it is, or which one it waits for, is decided at each launch.
Work record_work(CUevent handle) {
  const EventTarget& event = from_handle<Event>(handle, CUDA_ERROR_INVALID_VALUE);
  return {EventRecordNode{handle}, {}, [event](Stream& stream) { return record_now(event, stream); }};
}

Work wait_work(CUevent handle) {
  const EventTarget& event = from_handle<Event>(handle, CUDA_ERROR_INVALID_VALUE);
  return {EventWaitNode{handle}, {}, [event](Stream& stream) { return wait_now(event, stream); }};
}

}  // namespace emu
