// The device model in manual time. Usage: emu_model CASE. Exit code 0, or 1 with the line that failed.
#include <memory>
#include <random>
#include <vector>

#include "device_model/clock.hpp"
#include "device_model/device_model.hpp"
#include "emu_expect.hpp"

using namespace emu;

namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

struct Bench {
  explicit Bench(int64_t slice_ns) : state(std::make_unique<DeviceState>()), model(*state) {
    DeviceModel::initialise(*state, {.memory_bytes = 16 * kGiB, .context_memory_bytes = kGiB, .slice_ns = slice_ns});
    model.advance(1);  // 0 would read as "no first op yet" in the accounts
  }
  int stream(int process, int priority = 0) { return model.open_stream(process, priority); }
  uint64_t kernel(int stream, int64_t ns) { return model.enqueue(stream, {OpKind::kernel, ns}); }
  int64_t end(int stream, uint64_t seq) { return model.op(stream, seq).end_ns; }

  std::unique_ptr<DeviceState> state;
  DeviceModel model;
};

int fifo() {
  Bench b(2 * kMs);
  const int s = b.stream(b.model.attach(100, 1, 0));
  for (int i = 0; i < 3; ++i) b.kernel(s, 10 * kUs);
  b.model.advance(1 + 15 * kUs);
  EXPECT(b.model.done(s, 0) && !b.model.done(s, 1));
  b.model.advance(kMs);
  for (uint64_t i = 0; i < 3; ++i) EXPECT(b.end(s, i) == 1 + static_cast<int64_t>(i + 1) * 10 * kUs);
  EXPECT(b.state->processes[0].kernels == 3 && b.model.busy_ns(0) == 30 * kUs);
  return 0;
}

// Two processes that always have work each take twice as long as alone.
int slices_are_fair() {
  Bench b(2 * kMs);
  const int s0 = b.stream(b.model.attach(100, 1, 0));
  const int s1 = b.stream(b.model.attach(101, 1, 0));
  for (int i = 0; i < 400; ++i) {
    b.kernel(s0, 500 * kUs);
    b.kernel(s1, 500 * kUs);
  }
  b.model.advance(500 * kMs);
  b.model.advance(1000 * kMs);
  const double ratio0 = static_cast<double>(b.end(s0, 399)) / (200.0 * kMs);
  const double ratio1 = static_cast<double>(b.end(s1, 399)) / (200.0 * kMs);
  EXPECT(ratio0 > 1.98 && ratio0 <= 2.001 && ratio1 > 1.98 && ratio1 <= 2.001);
  EXPECT(b.model.busy_ns(0) == 200 * kMs && b.model.busy_ns(1) == 200 * kMs && b.state->busy_ns == 400 * kMs);
  return 0;
}

// A slice cuts a long kernel; run to completion does not.
int long_kernel_and_short(int64_t slice_ns, int64_t expected_end) {
  Bench b(slice_ns);
  const int low = b.stream(b.model.attach(100, 1, 0));
  const int high = b.stream(b.model.attach(101, 1, 0));
  b.kernel(low, 50 * kMs);
  b.model.advance(1 + kMs);
  const uint64_t seq = b.kernel(high, 100 * kUs);
  b.model.advance(200 * kMs);
  EXPECT(b.end(high, seq) == 1 + expected_end);
  EXPECT(b.end(low, 0) == 1 + 50 * kMs + (slice_ns > 0 ? 100 * kUs : 0));
  return 0;
}

int slice_preempts_long_kernel() { return long_kernel_and_short(2 * kMs, 2 * kMs + 100 * kUs); }
int run_to_completion_blocks() { return long_kernel_and_short(0, 50 * kMs + 100 * kUs); }

int run_to_completion_alternates() {
  Bench b(0);
  const int s0 = b.stream(b.model.attach(100, 1, 0));
  const int s1 = b.stream(b.model.attach(101, 1, 0));
  for (int i = 0; i < 5; ++i) b.kernel(s0, 10 * kUs);
  for (int i = 0; i < 5; ++i) b.kernel(s1, 10 * kUs);
  b.model.advance(kMs);
  for (uint64_t i = 0; i < 4; ++i) EXPECT(b.end(s0, i) < b.end(s1, i) && b.end(s1, i) < b.end(s0, i + 1));
  return 0;
}

int lone_slices_renew() {
  Bench b(2 * kMs);
  const int low = b.stream(b.model.attach(100, 1, 0));
  const int high = b.stream(b.model.attach(101, 1, 0));
  b.kernel(low, 100 * kMs);
  b.model.advance(1 + 11 * kMs);  // five and a half slices later somebody else comes: the sixth slice runs to its end
  const uint64_t seq = b.kernel(high, 10 * kUs);
  b.model.advance(50 * kMs);
  EXPECT(b.end(high, seq) == 1 + 12 * kMs + 10 * kUs);
  return 0;
}

int copies_run_beside_kernels() {
  Bench b(2 * kMs);
  const int process = b.model.attach(100, 1, 0);
  const int compute = b.stream(process);
  const int copies = b.stream(process);
  b.kernel(compute, 100 * kUs);
  b.model.enqueue(copies, {OpKind::copy_in, 40 * kUs});
  b.model.enqueue(copies, {OpKind::copy_out, 40 * kUs});
  b.model.advance(kMs);
  EXPECT(b.end(copies, 0) == 1 + 40 * kUs && b.end(copies, 1) == 1 + 80 * kUs && b.end(compute, 0) == 1 + 100 * kUs);
  EXPECT(b.model.busy_ns(process) == 100 * kUs);
  return 0;
}

int waits_order_streams() {
  Bench b(2 * kMs);
  const int process = b.model.attach(100, 1, 0);
  const int first = b.stream(process);
  const int second = b.stream(process);
  const uint64_t seq = b.model.enqueue(first, {OpKind::copy_in, 70 * kUs});
  b.model.enqueue(second, {OpKind::marker, 0, first, seq});
  b.kernel(second, 10 * kUs);
  EXPECT(b.model.earliest_end(second, 1) == 1 + 80 * kUs);
  b.model.advance(kMs);
  EXPECT(b.end(second, 0) == 1 + 70 * kUs && b.end(second, 1) == 1 + 80 * kUs);
  EXPECT(b.model.op(first, 0).completion < b.model.op(second, 0).completion);
  return 0;
}

int stream_priority_orders_ready_kernels() {
  Bench b(2 * kMs);
  const int process = b.model.attach(100, 1, 0);
  const int running = b.stream(process);
  const int plain = b.stream(process, 0);
  const int urgent = b.stream(process, -5);
  b.kernel(running, 10 * kUs);
  b.kernel(plain, 10 * kUs);
  b.kernel(urgent, 10 * kUs);
  b.model.advance(kMs);
  EXPECT(b.end(urgent, 0) < b.end(plain, 0));
  return 0;
}

int host_function_holds_its_stream() {
  Bench b(2 * kMs);
  const int s = b.stream(b.model.attach(100, 1, 0));
  b.kernel(s, 10 * kUs);
  const uint64_t host = b.model.enqueue(s, {OpKind::host});
  const uint64_t last = b.kernel(s, 10 * kUs);
  EXPECT(!b.model.host_ready(s, host));
  b.model.advance(kMs);
  EXPECT(b.model.host_ready(s, host) && b.model.earliest_end(s, last) == kNever);
  b.model.complete_host(s, host);
  b.model.advance(2 * kMs);
  EXPECT(b.end(s, last) == kMs + 10 * kUs);
  return 0;
}

int dead_process_frees_the_device() {
  Bench b(0);
  const int dead = b.model.attach(100, 7, 0);
  const int live = b.model.attach(101, 8, 0);
  const int ds = b.stream(dead);
  const int ls = b.stream(live);
  EXPECT(b.model.reserve(dead, 15 * kGiB) && !b.model.reserve(live, 2 * kGiB));
  b.kernel(ds, 10'000 * kMs);
  b.kernel(ls, 10 * kUs);
  b.model.advance(1 + kMs);
  EXPECT(!b.model.done(ls, 0));
  b.model.retire(dead);
  b.model.advance(2 * kMs);
  EXPECT(b.model.done(ls, 0) && b.model.reserve(live, 2 * kGiB));
  EXPECT(b.state->retired == 1 && b.state->history[0].pid == 100 && b.state->history[0].busy_ns == kMs);
  return 0;
}

// Against random work: the bound that a waiter sleeps to is never later than the true end, and streams stay FIFO.
int earliest_end_is_a_lower_bound() {
  std::mt19937 random(20261121);
  for (int round = 0; round < 30; ++round) {
    Bench b(round % 3 == 0 ? 0 : 300 * kUs);
    int streams[6];
    for (int i = 0; i < 6; ++i) streams[i] = b.stream(i % 2 == 0 ? b.model.attach(100 + i, 1, 0) : i / 2);
    struct Guess {
      int stream;
      uint64_t seq;
      int64_t bound;
    };
    std::vector<Guess> guesses;
    int64_t now = 1;
    for (int i = 0; i < 300; ++i) {
      now += random() % (100 * kUs);
      b.model.advance(now);
      const int s = streams[random() % 6];
      const OpKind kind = static_cast<OpKind>(random() % 4);
      OpRequest request{kind, static_cast<int64_t>(random() % (200 * kUs))};
      const int other = streams[random() % 6];
      if (random() % 4 == 0 && b.state->streams[other].tail > 0 && b.state->streams[other].process == b.state->streams[s].process) {
        request.wait_stream = other;
        request.wait_seq = b.state->streams[other].tail - 1;
      }
      const uint64_t seq = b.model.enqueue(s, request);
      guesses.push_back({s, seq, b.model.earliest_end(s, seq)});
    }
    b.model.advance(now + 1000 * kMs);
    for (const Guess& guess : guesses) {
      EXPECT(b.model.done(guess.stream, guess.seq));
      EXPECT(guess.bound <= b.end(guess.stream, guess.seq));
      EXPECT(guess.seq == 0 || b.end(guess.stream, guess.seq - 1) <= b.end(guess.stream, guess.seq));
    }
  }
  return 0;
}

// However coarsely somebody looks at the device, the same things happen at the same times.
int result_does_not_depend_on_when_one_looks() {
  int64_t ends[2][50];
  for (const int64_t step : {kMs, 7 * kUs}) {
    Bench b(500 * kUs);
    const int s0 = b.stream(b.model.attach(100, 1, 0));
    const int s1 = b.stream(b.model.attach(101, 1, 0));
    for (int i = 0; i < 50; ++i) {
      b.kernel(s0, 90 * kUs);
      b.kernel(s1, 230 * kUs);
    }
    for (int64_t t = 1; t < 100 * kMs; t += step) b.model.advance(t);
    for (uint64_t i = 0; i < 50; ++i) ends[step == kMs ? 0 : 1][i] = b.end(s0, i) + 3 * b.end(s1, i);
  }
  EXPECT(memcmp(ends[0], ends[1], sizeof ends[0]) == 0);
  return 0;
}

int repair_rebuilds_what_is_derived() {
  Bench b(2 * kMs);
  const int s = b.stream(b.model.attach(100, 1, 0));
  b.kernel(s, 10 * kUs);
  b.kernel(s, 10 * kUs);
  const DeviceState& before = *b.state;
  const int64_t work = before.streams[s].work_ns;
  // As if killed: in the middle of a third enqueue, with the busy set not yet written, the engine's note left behind.
  b.state->streams[s].work_ns += 10 * kUs;
  b.state->busy[0] = 0;
  b.state->streams[s].done = 1;
  b.model.repair();
  EXPECT(b.state->streams[s].work_ns == work && b.state->busy[0] == 1 && b.state->engines[kCompute].stream == kNone);
  b.model.advance(kMs);
  EXPECT(b.model.done(s, 1));
  return 0;
}

// As many as fill several words of the set of busy ones.
int all_streams_are_looked_at_also_after_a_repair() {
  Bench b(2 * kMs);
  const int process = b.model.attach(100, 1, 0);
  std::vector<int> streams;
  for (int i = 0; i < 130; ++i) streams.push_back(b.stream(process));
  const int last = streams.back();
  EXPECT(last >= 128);
  b.kernel(last, 10 * kUs);
  b.model.advance(kMs);
  EXPECT(b.model.done(last, 0));
  b.kernel(last, 10 * kUs);
  b.state->busy_words = 0;  // as if nothing that is derived could be believed
  b.state->busy[2] = 0;
  b.model.repair();
  b.model.advance(2 * kMs);
  EXPECT(b.model.done(last, 1));
  return 0;
}

// What monitors show: the last 200 to 250 ms, whether anything ended in them or not.
int utilisation_is_of_the_sample_period() {
  Bench b(2 * kMs);
  const int p0 = b.model.attach(100, 1, 0);
  const int p1 = b.model.attach(101, 1, 0);
  const int s0 = b.stream(p0);
  const int s1 = b.stream(p1);
  b.model.advance(1000 * kMs);
  b.kernel(s0, 60 * kMs);
  b.kernel(s1, 40 * kMs);
  b.model.advance(1200 * kMs);
  EXPECT(b.model.utilisation(kNone) == 0.5 && b.model.utilisation(p0) == 0.3 && b.model.utilisation(p1) == 0.2);
  b.model.advance(1350 * kMs);
  EXPECT(b.model.utilisation(kNone) == 0 && b.model.utilisation(p0) == 0);
  b.kernel(s0, 10'000 * kMs);
  b.model.advance(1400 * kMs);
  EXPECT(b.model.utilisation(p0) == 0.25 && b.model.utilisation(p1) == 0);
  b.model.advance(2300 * kMs);
  EXPECT(b.model.utilisation(p0) == 1 && b.model.utilisation(kNone) == 1);
  b.model.retire(p0);
  EXPECT(b.model.attach(102, 1, b.state->time_ns) == p0 && b.model.utilisation(p0) == 0);
  EXPECT(b.model.utilisation(kNone) == 1);
  b.model.advance(2600 * kMs);
  EXPECT(b.model.utilisation(kNone) == 0);
  return 0;
}

int manual_clock_moves_by_sleeping() {
  ManualClock clock;
  clock.sleep_until(5 * kMs);
  clock.sleep_until(kMs);
  EXPECT(clock.now_ns() == 5 * kMs);
  return 0;
}

// An event before a launch on an idle stream is reached while the launch is still on its way: the two events around a kernel
// time its way, too. On a busy stream they do not.
int events_fire_before_an_idle_streams_kernel_is_submitted() {
  const auto timed_ns = [](int64_t earlier_ns) {
    Bench b(2 * kMs);
    const int s = b.stream(b.model.attach(100, 1, 0));
    if (earlier_ns > 0) b.model.enqueue(s, {.kind = OpKind::kernel, .duration_ns = earlier_ns, .submission_ns = 4 * kUs});
    const uint64_t start = b.model.enqueue(s, {.kind = OpKind::marker, .submission_ns = 2 * kUs});
    b.model.enqueue(s, {.kind = OpKind::kernel, .duration_ns = 5 * kUs, .submission_ns = 4 * kUs});
    const uint64_t end = b.model.enqueue(s, {.kind = OpKind::marker, .submission_ns = 2 * kUs});
    b.model.advance(kMs);
    return b.end(s, end) - b.end(s, start);
  };
  EXPECT(timed_ns(0) == 9 * kUs);
  EXPECT(timed_ns(100 * kUs) == 5 * kUs);
  return 0;
}

// Timed events in line keep a distance to each other and to kernels, so that two around a kernel tell more than its run; other markers do not, and an
// op that comes when the one before is over waits for nothing.
int timed_events_in_line_keep_a_distance() {
  auto state = std::make_unique<DeviceState>();
  DeviceModel::initialise(*state, {.memory_bytes = 1, .event_gap_ns = kUs, .kernel_event_gap_ns = 3 * kUs});
  DeviceModel model(*state);
  model.advance(1);
  const int s = model.open_stream(model.attach(100, 1, 1), 0);
  const auto end = [&](uint64_t seq) { return model.op(s, seq).end_ns - 1; };
  const auto put = [&](OpKind kind) { return model.enqueue(s, {.kind = kind, .duration_ns = kind == OpKind::kernel ? 10 * kUs : 0}); };
  const OpKind line[] = {OpKind::kernel, OpKind::timed_event, OpKind::timed_event, OpKind::kernel, OpKind::timed_event,
                         OpKind::marker, OpKind::kernel, OpKind::kernel};
  for (const OpKind kind : line) put(kind);
  model.advance(kMs);
  const int64_t expected[] = {10, 13, 14, 27, 30, 30, 40, 50};
  for (uint64_t seq = 0; seq < std::size(expected); ++seq) EXPECT(end(seq) == expected[seq] * kUs);
  const uint64_t late = put(OpKind::timed_event);
  model.advance(2 * kMs);
  const uint64_t later = put(OpKind::kernel);
  model.advance(3 * kMs);
  EXPECT(end(late) + 1 == kMs && end(later) + 1 == 2 * kMs + 10 * kUs);
  return 0;
}

// A dependent launch begins beside the end of the kernel directly before it, and not where an event stands between.
int dependent_launch_overlaps_the_kernel_directly_before_it() {
  const auto both_ns = [](bool event_between, int64_t behind_ns) {
    Bench b(2 * kMs);
    const int s = b.stream(b.model.attach(100, 1, 0));
    b.kernel(s, 20 * kUs);
    if (event_between) b.model.enqueue(s, {OpKind::marker});
    b.model.advance(1 + behind_ns);
    const uint64_t second = b.model.enqueue(s, {.kind = OpKind::kernel, .duration_ns = 10 * kUs, .overlap_ns = 3 * kUs});
    b.model.advance(kMs);
    return b.end(s, second) - 1;
  };
  EXPECT(both_ns(false, 0) == 27 * kUs);
  EXPECT(both_ns(true, 0) == 30 * kUs);
  EXPECT(both_ns(false, 19 * kUs) == 30 * kUs);  // it came too late to have begun
  return 0;
}

constexpr Case kCases[] = {
    CASE(fifo), CASE(slices_are_fair), CASE(slice_preempts_long_kernel), CASE(run_to_completion_blocks),
    CASE(run_to_completion_alternates), CASE(lone_slices_renew), CASE(copies_run_beside_kernels), CASE(waits_order_streams),
    CASE(stream_priority_orders_ready_kernels), CASE(host_function_holds_its_stream), CASE(dead_process_frees_the_device),
    CASE(earliest_end_is_a_lower_bound), CASE(result_does_not_depend_on_when_one_looks), CASE(repair_rebuilds_what_is_derived),
    CASE(all_streams_are_looked_at_also_after_a_repair),
    CASE(utilisation_is_of_the_sample_period), CASE(manual_clock_moves_by_sleeping),
    CASE(events_fire_before_an_idle_streams_kernel_is_submitted),
    CASE(timed_events_in_line_keep_a_distance),
    CASE(dependent_launch_overlaps_the_kernel_directly_before_it),
};

}  // namespace

int main(int argc, char** argv) { return run_cases(kCases, argc, argv); }
