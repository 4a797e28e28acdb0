// Events of a whole context: all that its streams have to do, and what all of them wait for, those to come too. Other
// threads may destroy streams meanwhile, which are therefore told by their ids.
#include "libcuda/graph/capture.hpp"
#include "libcuda/stream/event.hpp"

namespace emu {
namespace {

Context& context_of(CUcontext handle) {
  driver();
  auto& context = from_handle<Context>(handle, CUDA_ERROR_INVALID_CONTEXT);
  require_alive(context.health());
  forbid_capture(context);
  return context;
}

Command wait_for(const Barrier& barrier) {
  return {.wait_stream = barrier.slot, .wait_seq = barrier.seq};
}

}  // namespace

Stream& Context::crossing() {
  const std::lock_guard lock(crossing_mutex_);
  if (crossing_ == nullptr) crossing_ = make_stream(CU_STREAM_NON_BLOCKING, 0);
  return *crossing_;
}

void Context::hold_back(Stream& stream) {
  const std::lock_guard lock(crossing_mutex_);
  if (barrier_) session_->enqueue(*stream.queue, wait_for(*barrier_));
}

void Context::hold_all_back(const Barrier& barrier) {
  const std::lock_guard lock(crossing_mutex_);
  barrier_ = barrier;
  for (const StreamEnd& stream : session_->ends(id)) {
    if (stream.id != crossing_->id) session_->enqueue_in(stream.id, wait_for(barrier));
  }
}

}  // namespace emu

using namespace emu;

CU_EXPORT CUresult cuCtxRecordEvent(CUcontext handle, CUevent event_handle) {
  return api([&] {
    Context& context = context_of(handle);
    auto& event = from_handle<Event>(event_handle);
    require(event.health == context.health(), CUDA_ERROR_INVALID_HANDLE);
    Stream& crossing = context.crossing();
    for (const StreamEnd& stream : context.session().ends(context.id)) {
      if (stream.id != crossing.id && stream.tail > 0)
        context.session().enqueue(*crossing.queue, wait_for({stream.slot, stream.tail - 1}));
    }
    event.capture.reset();
    record_now(event, crossing);
  });
}

// The wait is one op, in the stream in which nothing else runs. Later waits come behind it there, so that the last one
// stands for all of them.
CU_EXPORT CUresult cuCtxWaitEvent(CUcontext handle, CUevent event_handle) {
  return api([&] {
    Context& context = context_of(handle);
    auto& event = from_handle<Event>(event_handle);
    if (event.capture != nullptr && event.capture->graph != nullptr) forbid_captured(event);  // as a real driver, not as its manual
    Stream& crossing = context.crossing();
    if (const auto seq = wait_now(event, crossing)) context.hold_all_back({crossing.queue->slot, *seq});
  });
}
