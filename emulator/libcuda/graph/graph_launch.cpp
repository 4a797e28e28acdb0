// The calls that make executable graphs, run and destroy them.
#include "libcuda/graph/capture.hpp"
#include "libcuda/graph/graph_exec.hpp"

using namespace emu;

namespace {

CUresult instantiate(CUgraphExec* out, CUgraph graph, uint64_t flags, const char* call = __builtin_FUNCTION()) {
  return api([&] {
    driver();
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = to_handle<CUgraphExec>(new GraphExec(graph_of(graph), flags));
  }, call);
}

// With the place of the error for people, which there is no more to say about.
CUresult instantiate_with_log(CUgraphExec* out, CUgraph graph, CUgraphNode* node, char* log, size_t bytes,
                              const char* call = __builtin_FUNCTION()) {
  if (node != nullptr) *node = nullptr;
  if (log != nullptr && bytes > 0) *log = '\0';
  return instantiate(out, graph, 0, call);
}

}  // namespace

CU_EXPORT CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode* node, char* log, size_t bytes) {
  return instantiate_with_log(out, graph, node, log, bytes);
}
CU_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode* node, char* log, size_t bytes) {
  return instantiate_with_log(out, graph, node, log, bytes);
}
CU_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  return instantiate(out, graph, flags);
}

CU_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                                CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  constexpr int kSuccess = 0;
  constexpr int kError = 1;
  constexpr int kInvalidStructure = 2;
  if (parameters == nullptr) return api([] { return CUDA_ERROR_INVALID_VALUE; });
  const CUresult result = instantiate(out, graph, parameters->flags);
  parameters->hErrNode_out = nullptr;
  parameters->result_out = result == CUDA_SUCCESS               ? kSuccess
                           : result == CUDA_ERROR_INVALID_VALUE ? kInvalidStructure
                                                                : kError;
  return result;
}

CU_EXPORT CUresult cuGraphExecGetFlags(CUgraphExec exec, uint64_t* flags) {
  return api([&] {
    require(flags != nullptr, CUDA_ERROR_INVALID_VALUE);
    *flags = from_handle<GraphExec>(exec).flags;
  });
}

CU_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return api([&] { from_handle<GraphExec>(exec).launch(resolve(stream)); });
}

// Nothing has to be brought to the device here; in a captured stream it cannot be.
CU_EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  return api([&] {
    from_handle<GraphExec>(exec);
    forbid_capture(resolve(stream));
  });
}

CU_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return api([&] {
    driver();
    delete &from_handle<GraphExec>(exec);
  });
}
