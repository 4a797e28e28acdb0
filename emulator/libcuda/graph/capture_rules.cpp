// Which calls a capture does not bear.
#include <algorithm>
#include <mutex>

#include "libcuda/graph/capture.hpp"

namespace emu {
namespace {

// All captures that were begun and not ended. The count is for everybody else: no capture, no lock.
std::mutex g_mutex;
std::atomic<int> g_count{0};
std::vector<Capture*>& captures() {
  static auto* all = new std::vector<Capture*>;
  return *all;
}
thread_local CaptureMode t_mode = CaptureMode::global;
std::atomic<uint64_t> g_next_capture{1};

[[noreturn]] void spoil(Capture& capture, CUresult code) {
  const bool before = capture.invalidated.exchange(true);
  throw Failure{before ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : code};
}

}  // namespace

Capture::Capture(Stream& first, CaptureMode m, Graph* into)
    : made(into == nullptr ? std::make_unique<Graph>() : nullptr),
      graph(into == nullptr ? made.get() : into),
      origin(&first),
      id(g_next_capture++),
      mode(m) {
  graph->capturing = true;
  const std::lock_guard lock(g_mutex);
  members.push_back(&first);
  captures().push_back(this);
  ++g_count;
}

void enter_capture(Stream& stream, const std::shared_ptr<Capture>& capture) {
  stream.capture = capture;
  stream.capture_tail.clear();
  const std::lock_guard lock(g_mutex);
  capture->members.push_back(&stream);
}

void end_capture(Capture& capture) {
  const std::lock_guard lock(g_mutex);
  std::erase(captures(), &capture);
  --g_count;
  if (capture.graph != nullptr) capture.graph->capturing = false;
  capture.graph = nullptr;
  const auto members = std::move(capture.members);
  for (Stream* member : members) member->capture.reset();  // the last one may take the capture along
}

void leave_capture(Stream& stream) {
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return;
  if (capture->origin == &stream) {
    capture->invalidated = true;
    end_capture(*capture);
    return;
  }
  const std::lock_guard lock(g_mutex);
  capture->left.insert(capture->left.end(), stream.capture_tail.begin(), stream.capture_tail.end());
  std::erase(capture->members, &stream);
}

CaptureMode exchange_capture_mode(CaptureMode mode) { return std::exchange(t_mode, mode); }

bool blocks_legacy_stream(const Stream& stream, bool invalidate) {
  if (g_count.load() == 0 || stream.capture != nullptr || &stream != &stream.context->legacy()) return false;
  bool found = false;
  const std::lock_guard lock(g_mutex);
  for (Capture* capture : captures()) {
    for (const Stream* member : capture->members) {
      if (member->context != stream.context || (member->flags & CU_STREAM_NON_BLOCKING) != 0) continue;
      found = true;
      if (invalidate) capture->invalidated = true;
    }
  }
  return found;
}

void forbid_implicit_work(const Stream& stream) {
  require(!blocks_legacy_stream(stream, true), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

void forbid_capture(const Stream& stream) {
  if (stream.capture != nullptr) spoil(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  forbid_implicit_work(stream);
}

void forbid_capture(const Context& context) {
  if (g_count.load() == 0) return;
  bool found = false;
  const std::lock_guard lock(g_mutex);
  for (Capture* capture : captures()) {
    const auto is_here = [&](const Stream* member) { return member->context == &context; };
    if (!std::any_of(capture->members.begin(), capture->members.end(), is_here)) continue;
    found = true;
    capture->invalidated = true;
  }
  require(!found, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void forbid_unsafe_call() {
  if (g_count.load() == 0 || t_mode == CaptureMode::relaxed) return;
  bool found = false;
  const std::lock_guard lock(g_mutex);
  for (Capture* capture : captures()) {
    const bool own = capture->thread == std::this_thread::get_id() && capture->mode != CaptureMode::relaxed;
    const bool others = t_mode == CaptureMode::global && capture->mode == CaptureMode::global;
    if (!own && !others) continue;
    found = true;
    capture->invalidated = true;
  }
  require(!found, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void forbid_waiting(const Stream& stream) {
  forbid_capture(stream);
  forbid_unsafe_call();
}

void forbid_captured(const Event& event) {
  if (event.capture == nullptr) return;
  event.capture->invalidated = true;
  throw Failure{CUDA_ERROR_CAPTURED_EVENT};
}

void isolate_capture(Stream& stream) { spoil(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION); }

void join_capture(Stream& stream, const Event& event) {
  Capture& capture = *event.capture;
  require(capture.graph != nullptr, CUDA_ERROR_CAPTURED_EVENT);  // that capture has ended
  capture.require_valid();
  if (stream.capture == nullptr) {
    if (&stream == &stream.context->legacy()) spoil(capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    enter_capture(stream, event.capture);
  }
  if (stream.capture != event.capture) {
    capture.invalidated = true;
    spoil(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  auto& tail = stream.capture_tail;
  for (GraphNode* node : event.capture_nodes) {
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
  }
}

}  // namespace emu
