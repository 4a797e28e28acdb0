// How kernels share the compute engine, in manual time: within a process, between processes, at what cost.
// Usage: emu_compute CASE. Exit code 0, or 1 with the line that failed.
#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "device_model/device_model.hpp"
#include "emu_expect.hpp"

using namespace emu;

namespace {

constexpr int64_t kBegin = 1;  // 0 would read as "no first op yet" in the accounts

struct Bench {
  explicit Bench(const DeviceParameters& parameters) : state(std::make_unique<DeviceState>()), model(*state) {
    DeviceModel::initialise(*state, parameters);
    model.advance(kBegin);
  }
  int process() { return model.attach(++pids, 1, 0); }
  int stream(int process) { return model.open_stream(process, 0); }
  // Small enough to run beside its like at full speed (how larger ones do: emu_overlap.cpp).
  uint64_t kernel(int stream, int64_t ns) {
    return model.enqueue(stream, {.kind = OpKind::kernel, .duration_ns = ns, .demand = 0.1});
  }
  int64_t end(int stream, uint64_t seq = 0) { return model.op(stream, seq).end_ns - kBegin; }

  std::unique_ptr<DeviceState> state;
  DeviceModel model;
  int pids = 100;
};

int kernels_of_one_process_run_side_by_side() {
  Bench b({.slice_ns = 2 * kMs, .concurrency = 4});
  const int process = b.process();
  std::vector<int> streams;
  for (int i = 0; i < 6; ++i) streams.push_back(b.stream(process));
  for (const int s : streams) b.kernel(s, 10 * kUs);
  b.model.advance(kMs);
  for (int i = 0; i < 4; ++i) EXPECT(b.end(streams[i]) == 10 * kUs);
  for (int i = 4; i < 6; ++i) EXPECT(b.end(streams[i]) == 20 * kUs);
  // Side by side is the engine's time once.
  EXPECT(b.model.busy_ns(process) == 20 * kUs && b.model.busy_ns(kNone) == 20 * kUs);
  return 0;
}

int streams_stay_in_order_beside_each_other() {
  Bench b({.slice_ns = 2 * kMs, .concurrency = 4});
  const int s = b.stream(b.process());
  for (int i = 0; i < 4; ++i) b.kernel(s, 10 * kUs);
  b.model.advance(kMs);
  for (uint64_t i = 0; i < 4; ++i) EXPECT(b.end(s, i) == static_cast<int64_t>(i + 1) * 10 * kUs);
  return 0;
}

int processes_take_turns_even_if_there_is_room() {
  Bench b({.slice_ns = 2 * kMs, .concurrency = 4});
  const int first = b.stream(b.process());
  const int second = b.stream(b.process());
  b.kernel(first, 10 * kUs);
  b.kernel(second, 10 * kUs);
  b.model.advance(kMs);
  EXPECT(b.end(first) == 10 * kUs && b.end(second) == 20 * kUs);
  return 0;
}

int a_slice_preempts_all_kernels_of_its_process() {
  Bench b({.slice_ns = 2 * kMs, .concurrency = 2});
  const int process = b.process();
  const int left = b.stream(process);
  const int right = b.stream(process);
  const int other = b.stream(b.process());
  b.kernel(left, 3 * kMs);
  b.kernel(right, 3 * kMs);
  b.kernel(other, 500 * kUs);
  b.model.advance(20 * kMs);
  EXPECT(b.end(other) == 2 * kMs + 500 * kUs);
  EXPECT(b.end(left) == 3 * kMs + 500 * kUs && b.end(right) == b.end(left));
  return 0;
}

int nobody_joins_running_kernels_while_another_process_waits_for_their_end() {
  Bench b({.slice_ns = 0, .concurrency = 2});
  const int process = b.process();
  const int left = b.stream(process);
  const int right = b.stream(process);
  const int other = b.stream(b.process());
  b.kernel(left, 10 * kUs);
  b.kernel(other, 10 * kUs);
  b.kernel(right, 10 * kUs);
  b.model.advance(kMs);
  EXPECT(b.end(left) == 10 * kUs && b.end(other) == 20 * kUs && b.end(right) == 30 * kUs);
  return 0;
}

int merged_processes_run_side_by_side() {
  Bench b({.slice_ns = 2 * kMs, .switch_ns = 100 * kUs, .concurrency = 2, .sharing = Sharing::merged});
  const int first = b.stream(b.process());
  const int second = b.stream(b.process());
  const int third = b.stream(b.process());
  b.kernel(first, 5 * kMs);
  b.kernel(second, 4 * kMs);
  b.kernel(third, kMs);
  b.model.advance(20 * kMs);
  EXPECT(b.end(first) == 5 * kMs && b.end(second) == 4 * kMs && b.end(third) == 5 * kMs);
  EXPECT(b.model.busy_ns(kNone) == 5 * kMs && b.model.busy_ns(1) == 4 * kMs);
  return 0;
}

int only_a_change_of_process_costs_a_switch() {
  Bench b({.slice_ns = 2 * kMs, .switch_ns = 50 * kUs});
  const int first = b.process();
  const int a = b.stream(first);
  const int again = b.stream(first);
  const int other = b.stream(b.process());
  b.kernel(a, 10 * kUs);
  b.kernel(again, 10 * kUs);
  b.kernel(other, 10 * kUs);
  b.model.advance(kMs);
  EXPECT(b.end(a) == 10 * kUs && b.end(again) == 20 * kUs && b.end(other) == 80 * kUs);
  EXPECT(b.model.busy_ns(kNone) == 30 * kUs);  // the hand-over is nobody's
  return 0;
}

int launch_latency_shows_only_on_an_idle_device() {
  Bench b({.slice_ns = 2 * kMs, .launch_latency_ns = 5 * kUs});
  const int s = b.stream(b.process());
  b.kernel(s, 20 * kUs);
  b.kernel(s, 20 * kUs);
  EXPECT(b.model.earliest_end(s, 0) == kBegin + 25 * kUs);
  b.model.advance(kMs);
  EXPECT(b.end(s, 0) == 25 * kUs && b.end(s, 1) == 45 * kUs);
  return 0;
}

// Or a kernel between two of them would seem to take the latency, too.
int markers_take_as_long_to_reach_the_device() {
  Bench b({.slice_ns = 2 * kMs, .launch_latency_ns = 5 * kUs, .kernel_gap_ns = kUs});
  const int s = b.stream(b.process());
  const uint64_t from = b.model.enqueue(s, {});
  EXPECT(b.model.earliest_end(s, from) == kBegin + 5 * kUs);
  b.kernel(s, 20 * kUs);
  const uint64_t to = b.model.enqueue(s, {});
  b.kernel(s, 20 * kUs);
  b.model.advance(kMs);
  EXPECT(b.end(s, from) == 5 * kUs && b.end(s, to) == 26 * kUs && b.end(s, to + 1) == 47 * kUs);
  return 0;
}

int gap_follows_each_kernel_that_another_waits_for() {
  Bench b({.slice_ns = 2 * kMs, .kernel_gap_ns = kUs});
  const int s = b.stream(b.process());
  for (int i = 0; i < 3; ++i) b.kernel(s, 10 * kUs);
  b.model.advance(kMs);
  EXPECT(b.end(s, 0) == 10 * kUs && b.end(s, 1) == 21 * kUs && b.end(s, 2) == 32 * kUs);
  return 0;
}

// As measured on an H200: kernels in line keep the engine to the end of the slice, and a host's pause gives it away.
int the_gap_between_kernels_in_line_gives_nothing_away() {
  Bench b({.slice_ns = 1995 * kUs, .switch_ns = 100 * kUs, .kernel_gap_ns = 10 * kUs});
  const int chain = b.stream(b.process());
  const int other = b.stream(b.process());
  for (int i = 0; i < 40; ++i) b.kernel(chain, 90 * kUs);
  b.kernel(other, 10 * kUs);
  b.model.advance(20 * kMs);
  EXPECT(b.end(chain, 19) == 1990 * kUs);
  EXPECT(b.end(other) == 2105 * kUs);  // the slice ended in a gap, and was not renewed
  EXPECT(b.end(chain, 20) == 2295 * kUs);
  EXPECT(b.end(chain, 39) == 4195 * kUs);
  const int late = b.stream(b.process());
  const int64_t now_ns = 20 * kMs + kBegin;
  b.model.advance(now_ns);
  b.kernel(chain, 90 * kUs);
  b.model.advance(now_ns + 50 * kUs);
  b.kernel(late, 10 * kUs);
  b.model.advance(now_ns + 95 * kUs);
  b.kernel(chain, 90 * kUs);  // its host was late
  b.model.advance(30 * kMs);
  EXPECT(b.end(late) == 20 * kMs + 200 * kUs);
  EXPECT(b.end(chain, 41) == 20 * kMs + 390 * kUs);
  return 0;
}

// Two clients that always have work: each takes twice as long as alone, a little more with the cost of the switches.
int two_saturating_clients_take_twice_as_long() {
  for (const int64_t switch_ns : {int64_t{0}, 50 * kUs}) {
    Bench b({.slice_ns = 2 * kMs, .switch_ns = switch_ns});
    const int streams[] = {b.stream(b.process()), b.stream(b.process())};
    for (int i = 0; i < 800; ++i) {
      for (const int s : streams) b.kernel(s, 300 * kUs);
    }
    b.model.advance(1000 * kMs);
    for (const int s : streams) {
      const double ratio = static_cast<double>(b.end(s, 799)) / (800 * 300.0 * kUs);
      EXPECT(ratio > 1.95 && ratio < 2.06);
    }
    EXPECT(b.model.busy_ns(kNone) == 2 * 800 * 300 * kUs);
  }
  return 0;
}

struct Waits {
  int64_t longest = 0;
  int64_t sum = 0;
};

// A client that launches a kernel of 100 us every 11 ms or so, beside one that always has kernels of `long_ns` in line.
Waits periodic_beside_saturating(int64_t slice_ns, int64_t long_ns) {
  Bench b({.slice_ns = slice_ns});
  const int saturating = b.stream(b.process());
  const int periodic = b.stream(b.process());
  for (int i = 0; i < 1000; ++i) b.kernel(saturating, long_ns);
  std::mt19937 random(20261121);
  Waits waits;
  int64_t now = kBegin;
  for (int i = 0; i < 200; ++i) {
    now += 10 * kMs + static_cast<int64_t>(random() % 2000) * kUs;
    b.model.advance(now);
    const uint64_t seq = b.kernel(periodic, 100 * kUs);
    b.model.advance(now += 9 * kMs);
    const int64_t wait = b.end(periodic, seq) + kBegin - (now - 9 * kMs) - 100 * kUs;
    waits.longest = std::max(waits.longest, wait);
    waits.sum += wait;
  }
  return waits;
}

int periodic_client_waits_up_to_a_slice_per_kernel() {
  const Waits waits = periodic_beside_saturating(2 * kMs, 7 * kMs);
  EXPECT(waits.longest > 1900 * kUs && waits.longest <= 2 * kMs);
  EXPECT(waits.sum / 200 > 700 * kUs && waits.sum / 200 < 1300 * kUs);  // half a slice on average
  return 0;
}

int run_to_completion_blocks_for_the_length_of_a_kernel() {
  const Waits waits = periodic_beside_saturating(0, 7 * kMs);
  EXPECT(waits.longest > 6500 * kUs && waits.longest <= 7 * kMs);
  EXPECT(waits.sum / 200 > 2500 * kUs && waits.sum / 200 < 4500 * kUs);  // half a kernel on average
  return 0;
}

// Random work under random parameters: the bound that a waiter sleeps to is never too late, everything ends, and the
// result does not depend on how often somebody looks at the device.
int random_work(uint32_t seed, bool often, std::vector<int64_t>& ends) {
  std::mt19937 random(seed);
  const auto one_of = [&random](int64_t a, int64_t b) { return random() % 2 == 0 ? a : b; };
  constexpr Sharing kModes[] = {Sharing::slices, Sharing::slices, Sharing::mps, Sharing::mps, Sharing::merged};
  Bench b({.slice_ns = one_of(0, 300 * kUs),
           .switch_ns = one_of(0, 20 * kUs),
           .launch_latency_ns = one_of(0, 5 * kUs),
           .kernel_gap_ns = one_of(0, kUs),
           .concurrency = static_cast<int32_t>(one_of(1, 3)),
           .sharing = kModes[random() % 5],
           .mps_model = random() % 2 == 0 ? MpsModel::admission : MpsModel::proportion,
           .mps_switch_ns = one_of(0, 260),
           .idle_holds = static_cast<int32_t>(random() % 3 == 0),
           .overlap_slowdown = random() % 2 == 0 ? 1.0 : 1.3});
  // Of four processes two may be MPS clients, each of either priority.
  int streams[8];
  for (int i = 0; i < 8; i += 2) {
    const Membership membership{.mps = i < 4 && random() % 2 == 0,
                                .priority = static_cast<int>(random() % 2),
                                .weight = i == 0 ? 0.5 : 1};
    const int process = b.model.attach(++b.pids, 1, 0, membership);
    streams[i] = b.stream(process);
    streams[i + 1] = b.stream(process);
  }
  struct Guess {
    int stream;
    uint64_t seq;
    int64_t bound;
  };
  std::vector<Guess> guesses;
  int64_t now = kBegin;
  for (int i = 0; i < 200; ++i) {
    for (const int64_t next = now + static_cast<int64_t>(random() % 60) * kUs; now < next;) {
      now = often ? std::min(next, now + 7 * kUs) : next;
      b.model.advance(now);
    }
    const int s = streams[random() % 8];
    const OpRequest request{.kind = static_cast<OpKind>(random() % 4),
                            .duration_ns = static_cast<int64_t>(random() % (200 * kUs)),
                            .demand = (1 + static_cast<double>(random() % 40)) / 40,
                            .waves = 1 + random() % 4};
    const uint64_t seq = b.model.enqueue(s, request);
    guesses.push_back({s, seq, b.model.earliest_end(s, seq)});
  }
  b.model.advance(now + 1000 * kMs);
  for (const Guess& guess : guesses) {
    EXPECT(b.model.done(guess.stream, guess.seq));
    EXPECT(guess.bound <= b.end(guess.stream, guess.seq) + kBegin);
    ends.push_back(b.end(guess.stream, guess.seq));
  }
  return 0;
}

int bounds_hold_and_looking_changes_nothing() {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    std::vector<int64_t> seldom;
    std::vector<int64_t> often;
    if (random_work(seed, false, seldom) != 0 || random_work(seed, true, often) != 0) return 1;
    EXPECT(seldom == often);
  }
  return 0;
}

constexpr Case kCases[] = {
    CASE(kernels_of_one_process_run_side_by_side),
    CASE(streams_stay_in_order_beside_each_other),
    CASE(processes_take_turns_even_if_there_is_room),
    CASE(a_slice_preempts_all_kernels_of_its_process),
    CASE(nobody_joins_running_kernels_while_another_process_waits_for_their_end),
    CASE(merged_processes_run_side_by_side),
    CASE(only_a_change_of_process_costs_a_switch),
    CASE(launch_latency_shows_only_on_an_idle_device),
    CASE(markers_take_as_long_to_reach_the_device),
    CASE(gap_follows_each_kernel_that_another_waits_for),
    CASE(the_gap_between_kernels_in_line_gives_nothing_away),
    CASE(two_saturating_clients_take_twice_as_long),
    CASE(periodic_client_waits_up_to_a_slice_per_kernel),
    CASE(run_to_completion_blocks_for_the_length_of_a_kernel),
    CASE(bounds_hold_and_looking_changes_nothing),
};

}  // namespace

int main(int argc, char** argv) { return run_cases(kCases, argc, argv); }
