#include "event.hpp"

#include "graph.hpp"

namespace emu {
namespace {

void record_event(Event& event, Stream& stream) {
  if (stream.capture != nullptr) {
    event.capture = stream.capture;
    event.capture_nodes = stream.capture_tail;
    return;
  }
  event.capture.reset();
  require(&event.session == &stream.context->session(), CUDA_ERROR_INVALID_HANDLE);
  const std::shared_ptr<EventState> state = event.state;
  const uint64_t record = state->records.fetch_add(1) + 1;
  // Two words, so that the effect needs no allocation beyond its one: the state and which record it is.
  const uint64_t seq = event.session.enqueue(*stream.queue, Command{.effect = [state, record](int64_t end_ns) {
    state->time_ns.store(end_ns);
    state->completed.store(record);
  }});
  state->slot = stream.queue->slot;
  state->seq = seq;
}

}  // namespace

void wait_for_event(Stream& stream, Event& event) {
  if (event.capture != nullptr) {
    join_capture(stream, event);
    return;
  }
  require(stream.capture == nullptr, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EventState& state = *event.state;
  if (!state.pending()) return;
  Session& session = stream.context->session();
  if (&session == &event.session) {
    session.enqueue(*stream.queue, Command{.wait_stream = state.slot, .wait_seq = state.seq});
  } else {
    // Two devices are two models: this thread waits in the stream's place.
    event.session.wait(state.slot, state.seq, event.health, [&state] { return !state.pending(); });
  }
}

}  // namespace emu

using namespace emu;

CU_EXPORT CUresult cuEventCreate(CUevent* out, unsigned flags) {
  return api([&] {
    require(out != nullptr && flags < 8, CUDA_ERROR_INVALID_VALUE);
    require((flags & 4) == 0, CUDA_ERROR_NOT_SUPPORTED);  // inter-process events
    *out = to_handle<CUevent>(new Event(current(), flags));
  });
}

CU_EXPORT CUresult cuEventDestroy_v2(CUevent handle) {
  return api([&] {
    driver();
    delete &from_handle<Event>(handle);
  });
}

CU_EXPORT CUresult cuEventRecord(CUevent handle, CUstream stream) {
  return api([&] { record_event(from_handle<Event>(handle), resolve(stream)); });
}

CU_EXPORT CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned) {
  return api([&] { record_event(from_handle<Event>(handle), resolve(stream)); });
}

CU_EXPORT CUresult cuEventQuery(CUevent handle) {
  return api([&] {
    driver();
    auto& event = from_handle<Event>(handle);
    require_alive(event.health);
    require(event.capture == nullptr, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (!event.state->pending()) return CUDA_SUCCESS;
    const bool reached = event.session.poll([&] { return !event.state->pending(); });
    require_alive(event.health);
    return reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CU_EXPORT CUresult cuEventSynchronize(CUevent handle) {
  return api([&] {
    driver();
    auto& event = from_handle<Event>(handle);
    require_alive(event.health);
    require(event.capture == nullptr, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    const auto state = event.state;
    if (state->pending()) event.session.wait(state->slot, state->seq, event.health, [&] { return !state->pending(); });
  });
}

namespace {

CUresult elapsed_ms(float* out, CUevent from, CUevent to, const char* call = __builtin_FUNCTION()) {
  return api([&] {
    driver();
    auto& first = from_handle<Event>(from);
    auto& last = from_handle<Event>(to);
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    for (const Event* event : {&first, &last}) {
      require((event->flags & CU_EVENT_DISABLE_TIMING) == 0 && event->state->records.load() > 0,
              CUDA_ERROR_INVALID_HANDLE);
      require_alive(event->health);
    }
    const auto finished = [&] { return !first.state->pending() && !last.state->pending(); };
    if (!finished() && !(first.session.poll(finished) && last.session.poll(finished))) return CUDA_ERROR_NOT_READY;
    const auto ns = static_cast<double>(last.state->time_ns.load() - first.state->time_ns.load());
    *out = static_cast<float>(ns / first.session.dilation() / 1e6);
    return CUDA_SUCCESS;
  }, call);
}

}  // namespace

CU_EXPORT CUresult cuEventElapsedTime(float* out, CUevent from, CUevent to) { return elapsed_ms(out, from, to); }
CU_EXPORT CUresult cuEventElapsedTime_v2(float* out, CUevent from, CUevent to) { return elapsed_ms(out, from, to); }
