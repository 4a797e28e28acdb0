// The device model as a library, as a simulator uses it: no driver, no process, no thread, a clock of one's own.
// Usage: emu_library CASE. Exit code 0, or 1 with the line that failed.
#include <cstdio>
#include <cstring>
#include <memory>

#include "device_model/device_model.hpp"
#include "emu_expect.hpp"

using namespace emu;

namespace {

struct Device {
  Device() : state(std::make_unique<DeviceState>()), trace(std::make_unique<Trace>()), model(*state, trace.get()) {
    DeviceModel::initialise(*state, {.memory_bytes = 1 << 30, .slice_ns = 2 * kMs, .launch_latency_ns = 7});
    model.advance(1);
    process = model.attach(100, 1, 1);
  }
  uint64_t kernel(int stream, int64_t ns) {
    TraceRecord record{};
    record.enqueue_ns = state->time_ns;
    record.work_ns = ns;
    const uint64_t number = model.recording() == nullptr ? 0 : trace->add(record, "a_kernel");
    return model.enqueue(stream, {OpKind::kernel, ns, kNone, 0, 0, number});
  }

  std::unique_ptr<DeviceState> state;
  std::unique_ptr<Trace> trace;
  DeviceModel model;
  int process;
};

int next_event_leads_from_one_to_the_next() {
  Device d;
  EXPECT(d.model.next_event_ns() == kNever);
  const int a = d.model.open_stream(d.process, 0);
  const int b = d.model.open_stream(d.model.attach(101, 1, 1), 0);
  d.kernel(a, 5 * kMs);
  EXPECT(d.model.next_event_ns() == 8);  // on its way
  d.model.advance(8);
  EXPECT(d.model.next_event_ns() == 8 + 5 * kMs);
  d.model.advance(1 * kMs);
  d.kernel(b, 10);
  d.model.advance(d.model.next_event_ns());            // arrives, and has to wait for the slice's end
  EXPECT(d.model.next_event_ns() == 8 + 2 * kMs);
  int events = 0;
  for (; d.model.next_event_ns() != kNever; ++events) d.model.advance(d.model.next_event_ns());
  EXPECT(events == 3 && d.state->time_ns == 8 + 5 * kMs + 10);
  return 0;
}

int abandoned_context_leaves_the_engine_to_others() {
  Device d;
  const int given_up = d.model.open_stream(d.process, 0, 1);
  const int kept = d.model.open_stream(d.process, 0, 2);
  d.kernel(given_up, kNever / 2);
  d.kernel(given_up, 10);
  const uint64_t seq = d.kernel(kept, 10);
  d.model.advance(1'000);
  d.model.abandon(d.process, 1);
  EXPECT(d.model.error(given_up) == kContextDestroyed && d.model.dropped(given_up) == 0);
  EXPECT(d.model.done(given_up, 1) && d.model.error(kept) == 0);
  d.model.advance(1'010);
  EXPECT(d.model.done(kept, seq) && d.model.next_event_ns() == kNever);
  EXPECT(d.model.busy_ns(d.process) == 1'000 - 8 + 10);
  return 0;
}

int a_marker_releases_streams_before_its_own() {
  Device d;
  const int waiting = d.model.open_stream(d.process, 0);
  const int other = d.model.open_stream(d.process, 0);
  d.kernel(other, 1'000);
  const uint64_t marker = d.model.enqueue(other, {});
  const uint64_t seq = d.model.enqueue(waiting, {OpKind::kernel, 10, other, marker});
  d.model.advance(kMs);
  EXPECT(waiting < other && d.model.done(waiting, seq));
  EXPECT(d.model.op(waiting, seq).end_ns == d.model.op(other, marker).end_ns + 10);
  return 0;
}

int records_of_a_killed_context_are_closed() {
  Device d;
  d.trace->turn_on(16);
  const int stream = d.model.open_stream(d.process, 0, 1);
  const auto failing = d.trace->add({}, "fails");
  d.model.enqueue(stream, {OpKind::kernel, 10, kNone, 0, 700, failing});
  d.kernel(stream, 10);
  d.model.advance(kMs);
  EXPECT(d.trace->find(failing)->outcome == Outcome::failed);
  EXPECT(d.trace->find(failing + 1)->outcome == Outcome::dropped && d.trace->find(failing + 1)->start_ns == 0);
  return 0;
}

int trace_follows_ops_until_its_ring_is_full() {
  Device d;
  const int stream = d.model.open_stream(d.process, 0);
  EXPECT(d.kernel(stream, 10) == 0 && d.trace->written == 0);  // off
  d.trace->turn_on(3);
  EXPECT(d.trace->capacity == 4);
  for (int i = 0; i < 6; ++i) d.kernel(stream, 10);
  d.model.advance(kMs);
  EXPECT(d.trace->written == 6 && d.trace->find(2) == nullptr);
  for (uint64_t number = 3; number <= 6; ++number) {
    const TraceRecord* record = d.trace->find(number);
    EXPECT(record != nullptr && record->outcome == Outcome::done && record->end_ns == record->start_ns + 10);
    EXPECT(strcmp(d.trace->name_of(*record), "a_kernel") == 0);
  }
  d.trace->turn_on(1 << 10);  // anew: what was before is not in it
  d.kernel(stream, 10);
  EXPECT(d.trace->first == 6 && d.trace->find(7) != nullptr && d.trace->find(6) == nullptr);
  return 0;
}

int names_of_the_trace_run_out_without_harm() {
  Device d;
  d.trace->turn_on(kTraceRecords);
  char name[400];
  for (int i = 0; i < 5000; ++i) {
    snprintf(name, sizeof name, "%0390d", i);
    d.trace->add({}, name);
  }
  EXPECT(d.trace->nameless > 0 && d.trace->nameless < 5000);
  EXPECT(d.trace->name_bytes <= kTraceNameBytes);
  EXPECT(strlen(d.trace->name_of(*d.trace->find(1))) == 390 && d.trace->name_of(*d.trace->find(5000)) == nullptr);
  return 0;
}

constexpr Case kCases[] = {
    CASE(next_event_leads_from_one_to_the_next),
    CASE(abandoned_context_leaves_the_engine_to_others),
    CASE(a_marker_releases_streams_before_its_own),
    CASE(records_of_a_killed_context_are_closed),
    CASE(trace_follows_ops_until_its_ring_is_full),
    CASE(names_of_the_trace_run_out_without_harm),
};

}  // namespace

int main(int argc, char** argv) { return run_cases(kCases, argc, argv); }
