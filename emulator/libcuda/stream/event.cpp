#include "libcuda/stream/event.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "device_model/liveness.hpp"
#include "libcuda/graph/capture.hpp"
#include "libcuda/memory/memory.hpp"
#include "libcuda/memory/memory_api.hpp"

namespace emu {

namespace {

constexpr auto kOtherProcessPoll = std::chrono::microseconds(200);

// Interprocess: whoever recorded it last has gone, and with it the work it stood for.
bool abandoned(const EventState& state) {
  const int recorder = state.recorder.load();
  return recorder != getpid() && !alive(recorder, state.recorder_start.load());
}

// Another process's work is done when that process says so: only then its effects are there to be seen.
Command wait_for_other_process(const std::shared_ptr<EventState>& state) {
  Command command;
  command.kind = OpKind::host;
  command.host_function = [](CUresult) {};
  command.condition = [state, record = state->records.load(), looks = 0u]() mutable {
    return state->completed.load() >= record || (++looks % 16 == 0 && abandoned(*state));
  };
  return command;
}

bool reached(Event& event) {
  const EventState& state = *event.state;
  if (event.session.poll([&state] { return !state.pending(); })) return true;
  return event.interprocess() && abandoned(state);
}

}  // namespace

uint64_t record_now(const EventTarget& event, Stream& stream) {
  require(&event.session == &stream.context->session(), CUDA_ERROR_INVALID_HANDLE);
  const std::shared_ptr<EventState> state = event.state;
  const uint64_t record = state->records.fetch_add(1) + 1;
  if (event.interprocess()) {
    state->recorder_start.store(process_start(getpid()));
    state->recorder.store(getpid());
  }
  // Two words, so that the effect needs no allocation beyond its one: the state and which record it is.
  const auto reached = [state, record](const Ran& ran) { state->complete(record, ran.end_ns); };
  const OpKind kind = event.timed ? OpKind::timed_event : OpKind::marker;
  const Command command{.kind = kind, .effect = reached, .prompt = event.interprocess()};
  const uint64_t seq = event.session.enqueue(*stream.queue, command);
  state->slot = stream.queue->slot;
  state->seq = seq;
  return seq;
}

// Of two records in different streams the older one may be reached last.
void EventState::complete(uint64_t record, int64_t end_ns) {
  uint64_t before = completed.load();
  if (record > before) time_ns.store(end_ns);
  while (before < record && !completed.compare_exchange_weak(before, record)) {
  }
}

std::shared_ptr<EventState> shared_state(const SharedBytes& bytes, bool first) {
  void* memory = bytes.map(sizeof(EventState), PROT_READ | PROT_WRITE);
  auto* state = first ? new (memory) EventState : static_cast<EventState*>(memory);
  if (first) state->interprocess = true;
  return {state, [](EventState* mapped) { munmap(mapped, sizeof(EventState)); }};
}

std::optional<uint64_t> wait_now(const EventTarget& event, Stream& stream) {
  EventState& state = *event.state;
  if (!state.pending()) return std::nullopt;
  Session& session = stream.context->session();
  if (event.interprocess()) return session.enqueue(*stream.queue, wait_for_other_process(event.state));
  if (&session == &event.session)
    return session.enqueue(*stream.queue, Command{.wait_stream = state.slot, .wait_seq = state.seq});
  // Two devices are two models: this thread waits in the stream's place.
  event.session.wait(state.slot, state.seq, event.health, [&state] { return !state.pending(); });
  return std::nullopt;
}

}  // namespace emu

using namespace emu;

namespace {

constexpr unsigned kExternal = 1;  // flag of records and waits: in a capture, a node of its own

void record_event(CUevent handle, Stream& stream, unsigned flags) {
  auto& event = from_handle<Event>(handle);
  require((flags & ~kExternal) == 0 && (flags == 0 || stream.capture != nullptr), CUDA_ERROR_INVALID_VALUE);
  forbid_implicit_work(stream);
  if (stream.capture == nullptr) {
    event.capture.reset();
    record_now(event, stream);
    return;
  }
  stream.capture->require_valid();
  if (flags == kExternal) {
    record(stream, record_work(handle));
    return;
  }
  event.capture = stream.capture;
  event.capture_nodes = stream.capture_tail;
}

void wait_for_event(Stream& stream, CUevent handle, unsigned flags) {
  auto& event = from_handle<Event>(handle);
  require((flags & ~kExternal) == 0 && (flags == 0 || stream.capture != nullptr), CUDA_ERROR_INVALID_VALUE);
  if (flags == kExternal) {
    record(stream, wait_work(handle));
    return;
  }
  if (event.capture != nullptr) {
    join_capture(stream, event);
    return;
  }
  if (stream.capture != nullptr) isolate_capture(stream);
  forbid_implicit_work(stream);
  wait_now(event, stream);
}

}  // namespace

CU_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return api([&] { wait_for_event(resolve(stream), event, flags); });
}

CU_EXPORT CUresult cuEventCreate(CUevent* out, unsigned flags) {
  return api([&] {
    const bool interprocess = (flags & CU_EVENT_INTERPROCESS) != 0;
    require(out != nullptr && flags < 8 && (!interprocess || (flags & CU_EVENT_DISABLE_TIMING) != 0),
            CUDA_ERROR_INVALID_VALUE);
    auto event = std::make_unique<Event>(current(), flags);
    if (interprocess) {
      event->shared.emplace(SharedBytes::create(sizeof(EventState), event->device.uuid));
      event->state = shared_state(*event->shared, true);
    }
    *out = to_handle<CUevent>(event.release());
  });
}

CU_EXPORT CUresult cuEventDestroy_v2(CUevent handle) {
  return api([&] {
    driver();
    delete &from_handle<Event>(handle);
  });
}

CU_EXPORT CUresult cuEventRecord(CUevent handle, CUstream stream) {
  return api([&] { record_event(handle, resolve(stream), 0); });
}

CU_EXPORT CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned flags) {
  return api([&] { record_event(handle, resolve(stream), flags); });
}

CU_EXPORT CUresult cuEventQuery(CUevent handle) {
  return api([&] {
    driver();
    auto& event = from_handle<Event>(handle);
    require_alive(event.health);
    forbid_captured(event);
    forbid_unsafe_call();
    if (!event.state->pending()) return CUDA_SUCCESS;
    const bool done = reached(event);
    require_alive(event.health);
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CU_EXPORT CUresult cuEventSynchronize(CUevent handle) {
  return api([&] {
    driver();
    auto& event = from_handle<Event>(handle);
    require_alive(event.health);
    forbid_captured(event);
    forbid_unsafe_call();
    const auto state = event.state;
    if (event.interprocess()) {
      while (state->pending() && !reached(event)) {
        require_alive(event.health);
        std::this_thread::sleep_for(kOtherProcessPoll);
      }
      require_alive(event.health);
    } else if (state->pending()) {
      event.session.wait(state->slot, state->seq, event.health, [&] { return !state->pending(); });
    }
    settle_pools(event.device);
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
      forbid_captured(*event);
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
