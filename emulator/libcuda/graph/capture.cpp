// The calls that begin, end and ask about a capture, and what becomes a node in between.
#include "libcuda/graph/capture.hpp"

#include <algorithm>
#include <set>

namespace emu {

GraphNode& record(Stream& stream, Work work) {
  stream.capture->require_valid();
  GraphNode& node = stream.capture->graph->add(std::move(work), stream.capture_tail);
  stream.capture_tail = {&node};
  return node;
}

CUdeviceptr record_allocation(Stream& stream, uint64_t bytes) {
  stream.capture->require_valid();
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, stream.context->device.ordinal};
  parameters.bytesize = bytes;
  record(stream, allocation_work(parameters, *stream.context, *stream.capture->graph));
  return parameters.dptr;
}

void record_free(Stream& stream, CUdeviceptr pointer) {
  stream.capture->require_valid();
  record(stream, free_work(pointer, *stream.capture->graph));
}

}  // namespace emu

using namespace emu;

namespace {

CUstreamCaptureStatus status_of(const Stream& stream) {
  if (stream.capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

// Asking is allowed while a blocking stream is captured, but has no answer for the legacy stream (CUDA manual).
Stream& asked(CUstream handle) {
  Stream& stream = resolve(handle);
  require(!blocks_legacy_stream(stream, false), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  return stream;
}

std::set<const GraphNode*> with_ancestors(const std::vector<GraphNode*>& nodes) {
  std::set<const GraphNode*> found;
  std::vector<const GraphNode*> open(nodes.begin(), nodes.end());
  while (!open.empty()) {
    const GraphNode* node = open.back();
    open.pop_back();
    if (!found.insert(node).second) continue;
    open.insert(open.end(), node->after.begin(), node->after.end());
  }
  return found;
}

// A forked stream has work that the origin never waited for.
bool has_unjoined_work(const Capture& capture) {
  const auto joined = with_ancestors(capture.origin->capture_tail);
  const auto all_joined = [&](const std::vector<GraphNode*>& tail) {
    return std::all_of(tail.begin(), tail.end(), [&](const GraphNode* node) { return joined.contains(node); });
  };
  return !all_joined(capture.left) || !std::all_of(capture.members.begin(), capture.members.end(), [&](const Stream* s) {
    return all_joined(s->capture_tail);
  });
}

void begin(CUstream handle, int mode, Graph* into, std::vector<GraphNode*> after) {
  Stream& stream = resolve(handle);
  require(&stream != &stream.context->legacy(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  require(stream.capture == nullptr && mode >= 0 && mode <= static_cast<int>(CaptureMode::relaxed),
          CUDA_ERROR_INVALID_VALUE);
  stream.capture = std::make_shared<Capture>(stream, static_cast<CaptureMode>(mode), into);
  stream.capture_tail = std::move(after);
}

void require_of(const Graph& graph, const std::vector<GraphNode*>& nodes) {
  for (const GraphNode* node : nodes) require(&node->graph == &graph, CUDA_ERROR_INVALID_VALUE);
}

void update_dependencies(CUstream handle, const CUgraphNode* handles, size_t count, unsigned flags) {
  constexpr unsigned kAdd = 0;
  constexpr unsigned kSet = 1;
  Stream& stream = resolve(handle);
  require(stream.capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
  stream.capture->require_valid();
  require(flags == kAdd || flags == kSet, CUDA_ERROR_INVALID_VALUE);
  const auto nodes = nodes_of(handles, count);
  require_of(*stream.capture->graph, nodes);
  auto& tail = stream.capture_tail;
  if (flags == kSet) tail.clear();
  for (GraphNode* node : nodes) {
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
  }
}

CUresult capture_info(CUstream handle, int* status, unsigned long long* id, CUgraph* graph, const CUgraphNode** nodes,
                      const CUgraphEdgeData** edges, size_t* count, const char* call = __builtin_FUNCTION()) {
  return api([&] {
    require(status != nullptr, CUDA_ERROR_INVALID_VALUE);
    Stream& stream = asked(handle);
    *status = status_of(stream);
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return;
    if (id != nullptr) *id = stream.capture->id;
    if (graph != nullptr) *graph = to_handle<CUgraph>(stream.capture->graph);
    // A node's handle is its address, so the list of addresses is the list of handles.
    if (nodes != nullptr) *nodes = reinterpret_cast<const CUgraphNode*>(stream.capture_tail.data());
    if (edges != nullptr) {
      stream.capture->full_edges.resize(stream.capture_tail.size());
      *edges = stream.capture->full_edges.data();
    }
    if (count != nullptr) *count = stream.capture_tail.size();
  }, call);
}

}  // namespace

CU_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
  return api([&] { begin(stream, mode, nullptr, {}); });
}

CU_EXPORT CUresult cuStreamBeginCapture(CUstream stream) { return cuStreamBeginCapture_v2(stream, 0); }

CU_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph handle, const CUgraphNode* after,
                                               const CUgraphEdgeData* edges, size_t count, int mode) {
  return api([&] {
    Graph& graph = graph_of(handle);
    auto nodes = nodes_of(after, count);
    require_of(graph, nodes);
    require_full_edges(edges, count);
    require(!graph.capturing, CUDA_ERROR_INVALID_VALUE);
    begin(stream, mode, &graph, std::move(nodes));
  });
}

// Whatever it answers about a capture begun in this stream, the capture is over.
CU_EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph* out) {
  return api([&] {
    Stream& stream = resolve(handle);
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = nullptr;
    const std::shared_ptr<Capture> capture = stream.capture;
    require(capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
    if (capture->origin != &stream) {
      capture->invalidated = true;
      throw Failure{CUDA_ERROR_STREAM_CAPTURE_UNMATCHED};
    }
    const bool strange = capture->mode != CaptureMode::relaxed && capture->thread != std::this_thread::get_id();
    const bool unjoined = has_unjoined_work(*capture);
    Graph* graph = capture->graph;
    end_capture(*capture);
    std::unique_ptr<Graph> made = std::move(capture->made);  // not to live as long as the events recorded in it
    require(!strange, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    capture->require_valid();
    require(!unjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    *out = to_handle<CUgraph>(graph);
    static_cast<void>(made.release());  // the program's from now on
  });
}

CU_EXPORT CUresult cuStreamIsCapturing(CUstream handle, int* out) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = status_of(asked(handle));
  });
}

CU_EXPORT CUresult cuStreamGetCaptureInfo(CUstream stream, int* status, unsigned long long* id) {
  return capture_info(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}

CU_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int* status, unsigned long long* id, CUgraph* graph,
                                             const CUgraphNode** nodes, size_t* count) {
  return capture_info(stream, status, id, graph, nodes, nullptr, count);
}

CU_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream stream, int* status, unsigned long long* id, CUgraph* graph,
                                             const CUgraphNode** nodes, const CUgraphEdgeData** edges, size_t* count) {
  return capture_info(stream, status, id, graph, nodes, edges, count);
}

CU_EXPORT CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* nodes, size_t count,
                                                     unsigned flags) {
  return api([&] { update_dependencies(stream, nodes, count, flags); });
}

CU_EXPORT CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* nodes,
                                                        const CUgraphEdgeData* edges, size_t count, unsigned flags) {
  return api([&] {
    require_full_edges(edges, count);
    update_dependencies(stream, nodes, count, flags);
  });
}

CU_EXPORT CUresult cuThreadExchangeStreamCaptureMode(int* mode) {
  return api([&] {
    require(mode != nullptr, CUDA_ERROR_INVALID_VALUE);  // a real driver takes any number
    *mode = static_cast<int>(exchange_capture_mode(static_cast<CaptureMode>(*mode)));
  });
}
