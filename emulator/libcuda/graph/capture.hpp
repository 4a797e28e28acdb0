// Stream capture: calls on a stream become nodes of a graph instead of work. Which calls spoil it, and how that is told.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "libcuda/graph/graph.hpp"

namespace emu {

// Numbers of CUstreamCaptureMode: whose potentially unsafe calls a capture forbids.
enum class CaptureMode : int { global = 0, thread_local_only = 1, relaxed = 2 };

// One capture, shared by all streams that take part in it and by the events recorded in them.
struct Capture {
  Capture(Stream& first, CaptureMode m, Graph* into);
  void require_valid() const { require(!invalidated.load(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED); }

  std::unique_ptr<Graph> made;  // null when it captures into a graph of the program's
  Graph* graph;                 // null once the capture has ended
  Stream* const origin;
  const uint64_t id;
  const CaptureMode mode;
  const std::thread::id thread = std::this_thread::get_id();
  std::atomic<bool> invalidated{false};
  std::vector<Stream*> members;  // guarded by the table of captures
  std::vector<CUgraphEdgeData> full_edges;  // as many as were asked for: no edge of ours carries data
  std::vector<GraphNode*> left;  // last nodes of members that were destroyed
};

// The stream takes part in the capture from now on, after nothing.
void enter_capture(Stream& stream, const std::shared_ptr<Capture>& capture);
// Takes all streams out of it. Its graph is no longer reached through it.
void end_capture(Capture& capture);
// Sets the calling thread's mode and returns the one before.
CaptureMode exchange_capture_mode(CaptureMode mode);
// Adds a call on a captured stream to its graph.
GraphNode& record(Stream& stream, Work work);
// cuMemAllocAsync and cuMemFreeAsync on a captured stream.
CUdeviceptr record_allocation(Stream& stream, uint64_t bytes);
void record_free(Stream& stream, CUdeviceptr pointer);
Work allocation_work(CUDA_MEM_ALLOC_NODE_PARAMS& parameters, Context& context, const Graph& graph);
Work free_work(CUdeviceptr pointer, const Graph& graph);

// The stream waits for an event that a captured stream recorded: it takes part in that capture from now on.
void join_capture(Stream& stream, const Event& event);
// It waits for an event of uncaptured work instead: STREAM_CAPTURE_ISOLATION, and the capture is spoilt.
[[noreturn]] void isolate_capture(Stream& stream);
// A destroyed stream that began a capture takes it along; one that joined only leaves its nodes.
void leave_capture(Stream& stream);
// Whatever asks for the state of an event that was recorded in a capture: throws CAPTURED_EVENT, the capture is spoilt.
void forbid_captured(const Event& event);

// Each of these throws its error and spoils the capture that the call must not meet.
// True when this is the legacy stream and a blocking stream of its context is captured.
bool blocks_legacy_stream(const Stream& stream, bool invalidate);
// Work in the legacy stream while a blocking stream of its context is captured: STREAM_CAPTURE_IMPLICIT.
void forbid_implicit_work(const Stream& stream);
// What cannot be captured, in a captured stream: STREAM_CAPTURE_UNSUPPORTED.
void forbid_capture(const Stream& stream);
// The same for a whole context.
void forbid_capture(const Context& context);
// A call that might wait or need the legacy stream inside the driver, as allocating does, where a capture's mode forbids
// it to this thread (CUDA manual, cuThreadExchangeStreamCaptureMode): STREAM_CAPTURE_UNSUPPORTED.
void forbid_unsafe_call();
// Waiting for a stream: all three.
void forbid_waiting(const Stream& stream);

}  // namespace emu
