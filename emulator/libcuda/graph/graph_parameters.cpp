// The parameters of nodes, read and changed, in graphs and in executable graphs. Kernel nodes: kernel_node.cpp.
#include "libcuda/graph/graph_exec.hpp"

namespace emu {

void change(CUgraphNode handle, Work work) {
  GraphNode& node = node_of(handle);
  require(node.work.body.index() == work.body.index(), CUDA_ERROR_INVALID_VALUE);
  node.work = std::move(work);
}

}  // namespace emu

using namespace emu;

namespace {

template <typename Parameters>
CUresult get(CUgraphNode node, Parameters* out, const char* call = __builtin_FUNCTION()) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = body_of<Parameters>(node);
  }, call);
}

// Child graphs are changed as graphs, and an allocation's address cannot change.
Work generic_work(const CUgraphNodeParams& node) {
  switch (static_cast<NodeType>(node.type)) {
    case NodeType::kernel:
      return work_of(node.kernel);
    case NodeType::memcpy:
      return work_of(node.memcpy.copyParams);
    case NodeType::memset:
      return work_of(node.memset);
    case NodeType::host:
      return work_of(node.host);
    case NodeType::event_wait:
      return wait_work(node.event);
    case NodeType::event_record:
      return record_work(node.event);
    case NodeType::batch_mem_op:
      return work_of(node.memOp);
    case NodeType::graph:
    case NodeType::empty:
    case NodeType::mem_alloc:
    case NodeType::mem_free:
      break;
  }
  throw Failure{CUDA_ERROR_NOT_SUPPORTED};
}

template <typename Body>
CUresult get_event(CUgraphNode node, CUevent* out, const char* call = __builtin_FUNCTION()) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = body_of<Body>(node).handle;
  }, call);
}

}  // namespace

CU_EXPORT CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* out) { return get(node, out); }
CU_EXPORT CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* copy) { return set_parameters(node, copy); }
CU_EXPORT CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* copy,
                                                  CUcontext) {
  return set_parameters(exec, node, copy);
}

CU_EXPORT CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* out) { return get(node, out); }
CU_EXPORT CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* fill) {
  return set_parameters(node, fill);
}
CU_EXPORT CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                  const CUDA_MEMSET_NODE_PARAMS* fill, CUcontext) {
  return set_parameters(exec, node, fill);
}

CU_EXPORT CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* out) { return get(node, out); }
CU_EXPORT CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* host) {
  return set_parameters(node, host);
}
CU_EXPORT CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* host) {
  return set_parameters(exec, node, host);
}

// The operations that it names stay the node's: they are only to be read.
CU_EXPORT CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS* out) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto& batch = body_of<BatchNode>(node);
    *out = {batch.context, static_cast<unsigned>(batch.operations.size()), batch.operations.data(), batch.flags};
  });
}
CU_EXPORT CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS* batch) {
  return set_parameters(node, batch);
}
CU_EXPORT CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                      const CUDA_BATCH_MEM_OP_NODE_PARAMS* batch) {
  return set_parameters(exec, node, batch);
}

CU_EXPORT CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* out) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = body_of<MemoryAllocNode>(node).parameters;
  });
}
CU_EXPORT CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* out) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = body_of<MemoryFreeNode>(node).memory->base;
  });
}

CU_EXPORT CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* out) {
  return get_event<EventRecordNode>(node, out);
}
CU_EXPORT CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* out) {
  return get_event<EventWaitNode>(node, out);
}
CU_EXPORT CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return api([&] { change(node, record_work(event)); });
}
CU_EXPORT CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return api([&] { change(node, wait_work(event)); });
}
CU_EXPORT CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return api([&] { from_handle<GraphExec>(exec).replace(node, record_work(event)); });
}
CU_EXPORT CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return api([&] { from_handle<GraphExec>(exec).replace(node, wait_work(event)); });
}

CU_EXPORT CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* parameters) {
  return api([&] {
    require(parameters != nullptr, CUDA_ERROR_INVALID_VALUE);
    change(node, generic_work(*parameters));
  });
}

CU_EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec handle, CUgraphNode node, CUgraphNodeParams* parameters) {
  return api([&] {
    auto& exec = from_handle<GraphExec>(handle);
    require(parameters != nullptr, CUDA_ERROR_INVALID_VALUE);
    if (static_cast<NodeType>(parameters->type) == NodeType::graph) {
      exec.update_child(node, graph_of(parameters->graph.graph));
    } else {
      exec.replace(node, generic_work(*parameters));
    }
  });
}

namespace {

// Only what computes or moves data can be switched off; it is then an empty node.
GraphNode& switchable(CUgraphExec exec, CUgraphNode handle) {
  GraphNode& node = from_handle<GraphExec>(exec).own(handle);
  require(node.type() == NodeType::kernel || node.type() == NodeType::memcpy || node.type() == NodeType::memset,
          CUDA_ERROR_INVALID_VALUE);
  return node;
}

}  // namespace

CU_EXPORT CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  return api([&] { switchable(exec, node).enabled = enabled != 0; });
}

CU_EXPORT CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned* enabled) {
  return api([&] {
    require(enabled != nullptr, CUDA_ERROR_INVALID_VALUE);
    *enabled = switchable(exec, node).enabled ? 1 : 0;
  });
}
