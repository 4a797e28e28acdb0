#include "libcuda/graph/kernel_node.hpp"

#include "libcuda/graph/graph_exec.hpp"
#include "libcuda/module/launch.hpp"

namespace emu {

KernelLaunch::KernelLaunch(const void* function, const Grid& grid, unsigned shared_bytes, void** parameters,
                           void** extra)
    : function_(function), grid_(grid), shared_bytes_(shared_bytes) {
  const auto* sizes = function_of(function).parameters();
  if (parameters != nullptr && sizes != nullptr && !sizes->empty()) {
    bytes_.resize(sizes->back().offset + sizes->back().bytes);
    for (size_t i = 0; i < sizes->size(); ++i) {
      char* copy = bytes_.data() + (*sizes)[i].offset;
      memcpy(copy, parameters[i], (*sizes)[i].bytes);
      parameters_.push_back(copy);
    }
    return;
  }
  const char* packed = nullptr;
  for (; parameters == nullptr && extra != nullptr && extra[0] != nullptr; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) packed = static_cast<const char*>(extra[1]);
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE) packed_bytes_ = *static_cast<const size_t*>(extra[1]);
  }
  if (packed == nullptr) packed_bytes_ = 0;
  if (packed_bytes_ == 0) return;
  bytes_.assign(packed, packed + packed_bytes_);
  extra_ = {CU_LAUNCH_PARAM_BUFFER_POINTER, bytes_.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_bytes_, nullptr};
}

const Context* KernelLaunch::context() const { return function_of(function_).code.context; }

void KernelLaunch::describe_shape(CUDA_KERNEL_NODE_PARAMS_v1& out) {
  out.gridDimX = grid_.grid[0];
  out.gridDimY = grid_.grid[1];
  out.gridDimZ = grid_.grid[2];
  out.blockDimX = grid_.block[0];
  out.blockDimY = grid_.block[1];
  out.blockDimZ = grid_.block[2];
  out.sharedMemBytes = shared_bytes_;
  out.kernelParams = parameters_.empty() ? nullptr : parameters_.data();
  out.extra = packed_bytes_ > 0 ? extra_.data() : nullptr;
}

// The first form has no place for a CUkernel: it gets the function behind it.
void KernelLaunch::describe(CUDA_KERNEL_NODE_PARAMS_v1& out) {
  out = {};
  out.func = to_handle<CUfunction>(&function_of(function_));
  describe_shape(out);
}

void KernelLaunch::describe(CUDA_KERNEL_NODE_PARAMS_v2& out) {
  out = {};
  Function& function = function_of(function_);
  const bool is_function = &function == function_;
  if (is_function) out.func = to_handle<CUfunction>(&function);
  if (!is_function) out.kern = to_handle<CUkernel>(function.kernel);
  out.ctx = to_handle<CUcontext>(function.code.context);
  describe_shape(out);
}

}  // namespace emu

using namespace emu;

namespace {

template <typename Parameters>
CUresult get(CUgraphNode node, Parameters* out, const char* call = __builtin_FUNCTION()) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    body_of<KernelNode>(node).launch->describe(*out);
  }, call);
}

}  // namespace

CU_EXPORT CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* out) {
  return get(node, out);
}

CU_EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2* out) {
  return get(node, out);
}

// Of the launch attributes only this one means anything here.
CU_EXPORT CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, int attribute, void* value) {
  return api([&] {
    constexpr int kCooperative = 2;
    require(value != nullptr, CUDA_ERROR_INVALID_VALUE);
    const auto& launch = body_of<KernelNode>(node).launch;
    require(attribute == kCooperative, CUDA_ERROR_NOT_SUPPORTED);
    *static_cast<int*>(value) = launch->cooperative ? 1 : 0;
  });
}

CU_EXPORT CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  return set_parameters(node, parameters);
}

CU_EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2* parameters) {
  return set_parameters(node, parameters);
}

CU_EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                  const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  return set_parameters(exec, node, parameters);
}

CU_EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                     const CUDA_KERNEL_NODE_PARAMS_v2* parameters) {
  return set_parameters(exec, node, parameters);
}
