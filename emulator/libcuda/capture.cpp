// Stream capture: calls on a stream become nodes of a graph.
#include <atomic>

#include "graph.hpp"

namespace emu {

GraphNode& record(Stream& stream, Command command) {
  require(!stream.capture->invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  const NodeType type = node_type(command);
  stream.capture_tail = {stream.capture->graph->add(type, std::move(command), stream.capture_tail)};
  return *stream.capture_tail.front();
}

void join_capture(Stream& stream, const Event& event) {
  require(event.capture->graph != nullptr, CUDA_ERROR_INVALID_VALUE);  // that capture has ended
  if (stream.capture == nullptr) {
    stream.capture = event.capture;
    stream.capture_tail.clear();
  }
  require(stream.capture == event.capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  for (GraphNode* node : event.capture_nodes) stream.capture_tail.push_back(node);
}

}  // namespace emu

using namespace emu;

namespace {

std::atomic<uint64_t> g_next_capture{1};

CUstreamCaptureStatus status_of(const Stream& stream) {
  if (stream.capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

// Work of a forked stream that the origin never waited for: nothing in the graph depends on it and it is not the
// origin's own tail.
bool has_unjoined_work(const Capture& capture, const Stream& stream) {
  for (const GraphNode* tail : stream.capture_tail) {
    bool followed = false;
    for (const auto& node : capture.graph->nodes) {
      for (const GraphNode* before : node->after) followed = followed || before == tail;
    }
    for (const GraphNode* joined : capture.origin->capture_tail) followed = followed || joined == tail;
    if (!followed) return true;
  }
  return false;
}

}  // namespace

CU_EXPORT CUresult cuStreamBeginCapture_v2(CUstream handle, int) {
  return api([&] {
    Stream& stream = resolve(handle);
    require(&stream != &stream.context->legacy(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    require(stream.capture == nullptr, CUDA_ERROR_INVALID_VALUE);
    stream.capture = std::make_shared<Capture>();
    stream.capture->origin = &stream;
    stream.capture->id = g_next_capture++;
    stream.capture_tail.clear();
  });
}

CU_EXPORT CUresult cuStreamBeginCapture(CUstream handle) { return cuStreamBeginCapture_v2(handle, 0); }

CU_EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph* out) {
  return api([&] {
    Stream& stream = resolve(handle);
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = nullptr;
    const std::shared_ptr<Capture> capture = stream.capture;
    require(capture != nullptr, CUDA_ERROR_INVALID_VALUE);
    require(capture->origin == &stream, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    bool unjoined = false;
    for (Stream* member : stream.context->streams()) {
      if (member->capture != capture) continue;
      unjoined = unjoined || (member != &stream && has_unjoined_work(*capture, *member));
      member->capture.reset();
    }
    const std::unique_ptr<Graph> spoiled(capture->invalidated || unjoined ? capture->graph.release() : nullptr);
    require(!capture->invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    require(!unjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    *out = to_handle<CUgraph>(capture->graph.release());
  });
}

CU_EXPORT CUresult cuStreamIsCapturing(CUstream handle, int* out) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = status_of(resolve(handle));
  });
}

CU_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream handle, int* status, unsigned long long* id, CUgraph* graph,
                                             const CUgraphNode** nodes, size_t* count) {
  return api([&] {
    require(status != nullptr, CUDA_ERROR_INVALID_VALUE);
    Stream& stream = resolve(handle);
    *status = status_of(stream);
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return;
    if (id != nullptr) *id = stream.capture->id;
    if (graph != nullptr) *graph = to_handle<CUgraph>(stream.capture->graph.get());
    // A node's handle is its address, so the list of addresses is the list of handles.
    if (nodes != nullptr) *nodes = reinterpret_cast<const CUgraphNode*>(stream.capture_tail.data());
    if (count != nullptr) *count = stream.capture_tail.size();
  });
}

CU_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream handle, int* status, unsigned long long* id, CUgraph* graph,
                                             const CUgraphNode** nodes, const void** edges, size_t* count) {
  if (edges != nullptr) *edges = nullptr;  // no edge of ours carries data
  return cuStreamGetCaptureInfo_v2(handle, status, id, graph, nodes, count);
}

CU_EXPORT CUresult cuThreadExchangeStreamCaptureMode(int* mode) {
  return api([&] {
    // The mode only says which unsafe calls of other threads fail; none of them does harm here.
    thread_local int t_mode = 0;
    require(mode != nullptr, CUDA_ERROR_INVALID_VALUE);
    std::swap(*mode, t_mode);
  });
}
