// How fast kernels run beside each other, in manual time: demands, MPS priorities, MPS clients beside others, weights.
// Usage: emu_overlap CASE. Exit code 0, or 1 with the line that failed.
#include <vector>

#include "emu_beside.hpp"
#include "emu_expect.hpp"

using namespace emu;

namespace {

int what_fits_together_runs_at_full_speed() {
  Bench b({.switch_ns = 50 * kUs, .sharing = Sharing::mps});
  const int a = b.stream();
  const int c = b.stream();
  b.kernel(a, 100 * kUs, 0.5);
  b.kernel(c, 80 * kUs, 0.5);
  b.at(kMs);
  EXPECT(b.end(a) == 100 * kUs && b.end(c) == 80 * kUs);  // and nobody pays a switch
  EXPECT(b.model.busy_ns(kNone) == 100 * kUs && b.model.busy_ns(1) == 80 * kUs);
  EXPECT(b.model.work_ns(0) == 50 * kUs && b.model.work_ns(1) == 40 * kUs);
  return 0;
}

// Two that want the whole device have half of it; whoever is left has it alone again.
int beyond_the_device_all_slow_in_proportion() {
  Bench b({.sharing = Sharing::mps});
  const int a = b.stream();
  const int c = b.stream();
  b.kernel(a, 100 * kUs);
  b.at(40 * kUs);
  b.kernel(c, 30 * kUs);
  b.at(kMs);
  EXPECT(b.end(c) == 100 * kUs);
  EXPECT(b.end(a) == 130 * kUs);
  EXPECT(b.model.work_ns(0) == 100 * kUs && b.model.work_ns(1) == 30 * kUs);
  return 0;
}

// 1/3 of 1.5 and 1 of 1.5: both at two thirds of their speed.
int small_and_large_slow_alike() {
  Bench b({.sharing = Sharing::mps});
  const int small = b.stream();
  const int large = b.stream();
  b.kernel(small, 20 * kUs, 0.5);
  b.kernel(large, 100 * kUs, 1);
  b.at(kMs);
  EXPECT(b.end(small) == 30 * kUs || b.end(small) == 30 * kUs + 1);
  EXPECT(b.end(large) == 110 * kUs || b.end(large) == 110 * kUs + 1);
  return 0;
}

// However often neighbours come and go, not one nanosecond is lost or won.
int many_changes_of_speed_lose_nothing() {
  Bench b({.sharing = Sharing::mps});
  const int long_one = b.stream();
  const int short_ones = b.stream();
  const int odd_ones = b.stream();
  b.kernel(long_one, 100 * kMs);
  for (int i = 0; i < 10'000; ++i) {
    b.at(i * 10 * kUs);
    b.kernel(short_ones, 1001);
    b.at(i * 10 * kUs + 5 * kUs);
    b.kernel(odd_ones, 333, 0.7);
  }
  b.at(1000 * kMs);
  // 1001 ns each of the short ones'; of the odd ones' 0.7 x 333 ns, which end at the next whole ns.
  const int64_t expected = 100 * kMs + 10'000 * 1001 + 10'000 * 333 * 7 / 10;
  EXPECT(b.end(long_one) >= expected && b.end(long_one) <= expected + 10'000);
  EXPECT(b.model.work_ns(0) == 100 * kMs && b.model.work_ns(1) == 10'000 * 1001);
  return 0;
}

int overlap_slows_only_beside_another_process() {
  Bench b({.concurrency = 2, .sharing = Sharing::mps, .overlap_slowdown = 1.5});
  const int first = b.process();
  const int a = b.model.open_stream(first, 0);
  const int again = b.model.open_stream(first, 0);
  const int other = b.stream();
  b.kernel(a, 60 * kUs, 0.1);
  b.kernel(again, 60 * kUs, 0.1);
  b.at(30 * kUs);  // half of both is done: they are one process's
  b.kernel(other, 10 * kUs, 0.1);
  b.at(kMs);
  EXPECT(b.end(other) <= 45 * kUs + 1 && b.end(other) >= 45 * kUs);
  EXPECT(b.end(a) <= 65 * kUs + 1 && b.end(a) >= 65 * kUs && b.end(again) == b.end(a));
  return 0;
}

int below_normal_gets_what_normal_leaves() {
  Bench b({.sharing = Sharing::mps});
  const int high = b.stream();
  const int low = b.stream({.priority = 1});
  b.kernel(high, 100 * kUs, 0.75);
  b.at(kUs);
  b.kernel(low, 50 * kUs, 0.5);
  b.at(kMs);
  EXPECT(b.end(high) == 100 * kUs);
  EXPECT(b.end(low) == 100 * kUs + 500);  // half of its speed for 99 us
  return 0;
}

// Nobody sees it begin: not one of its blocks has found a place.
int below_normal_does_not_begin_on_a_full_device() {
  Bench b({.sharing = Sharing::mps});
  const int high = b.stream();
  const int low = b.stream({.priority = 1});
  b.kernel(high, 100 * kUs);
  b.at(kUs);
  b.kernel(low, 50 * kUs, 0.1);
  EXPECT(b.model.busy_ns(1) == 0 && b.model.earliest_end(low, 0) >= kBegin + 150 * kUs);
  b.at(kMs);
  EXPECT(b.end(high) == 100 * kUs && b.end(low) == 150 * kUs);
  EXPECT(b.model.busy_ns(1) == 50 * kUs);
  return 0;
}

// 100 us in 10 waves: its resident blocks keep half of what the high one wants for 10 us, then it stands still.
int resident_blocks_keep_their_places_for_a_block() {
  Bench b({.sharing = Sharing::mps});
  const int high = b.stream();
  const int low = b.stream({.priority = 1});
  b.kernel(low, 100 * kUs, 1, 10);
  b.at(50 * kUs);
  b.kernel(high, 30 * kUs);
  b.at(kMs);
  EXPECT(b.end(high) == 50 * kUs + 35 * kUs);
  EXPECT(b.end(low) == 130 * kUs);
  return 0;
}

// All its blocks are resident: priority frees none of their places.
int a_low_kernel_of_one_wave_keeps_its_places_to_its_end() {
  Bench b({.sharing = Sharing::mps});
  const int high = b.stream();
  const int low = b.stream({.priority = 1});
  b.kernel(low, 100 * kUs);
  b.at(50 * kUs);
  b.kernel(high, 100 * kUs);
  b.at(kMs);
  EXPECT(b.end(low) == 150 * kUs && b.end(high) == 200 * kUs);
  return 0;
}

// The normal one is over: another low kernel need not wait for the end of the hold.
int places_are_held_against_normal_kernels_alone() {
  Bench b({.sharing = Sharing::mps});
  const int high = b.stream();
  const int low = b.stream({.priority = 1});
  const int other = b.stream({.priority = 1});
  b.kernel(low, 100 * kUs);
  b.kernel(high, 10 * kUs);
  b.kernel(other, 10 * kUs);
  b.at(kMs);
  EXPECT(b.end(high) == 20 * kUs && b.end(other) == 40 * kUs && b.end(low) == 120 * kUs);
  return 0;
}

int a_process_runs_no_more_kernels_at_once_than_it_may() {
  Bench b({.concurrency = 2, .sharing = Sharing::mps});
  const int process = b.process();
  const int other = b.stream();
  std::vector<int> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(b.model.open_stream(process, 0));
  for (const int s : streams) b.kernel(s, 10 * kUs, 0.1);
  b.kernel(other, 10 * kUs, 0.1);
  b.at(kMs);
  EXPECT(b.end(streams[0]) == 10 * kUs && b.end(streams[1]) == 10 * kUs && b.end(streams[2]) == 20 * kUs);
  EXPECT(b.end(other) == 10 * kUs);
  return 0;
}

int at_most_128_kernels_run_at_once() {
  Bench b({.concurrency = 8, .sharing = Sharing::mps});
  std::vector<int> streams;
  for (int p = 0; p < 20; ++p) {
    const int process = b.process();
    for (int i = 0; i < 8; ++i) streams.push_back(b.model.open_stream(process, 0));
  }
  for (const int s : streams) b.kernel(s, 10 * kUs, 0.001);
  b.at(kMs);
  int first = 0;
  for (const int s : streams) first += b.end(s) == 10 * kUs ? 1 : 0;
  EXPECT(first == kMaxConcurrent);
  EXPECT(b.model.busy_ns(kNone) == 20 * kUs);
  return 0;
}

// Two MPS clients have one turn together, and one that is none has the other.
int mps_clients_take_turns_with_others_as_one() {
  Bench b({.slice_ns = kMs, .switch_ns = 50 * kUs});
  const int first = b.stream({.mps = true});
  const int second = b.stream({.mps = true});
  const int outside = b.stream();
  b.kernel(first, 3 * kMs, 0.5);
  b.kernel(second, 3 * kMs, 0.5);
  b.kernel(outside, 2 * kMs);
  b.at(100 * kMs);
  const int64_t turn = kMs + 50 * kUs;
  EXPECT(b.end(outside) == 4 * turn - 50 * kUs);
  EXPECT(b.end(first) == 4 * turn + kMs && b.end(second) == b.end(first));
  return 0;
}

int a_slice_is_as_long_as_its_process_weighs() {
  Bench b({.slice_ns = kMs});
  const int heavy = b.stream({.weight = 3});
  const int light = b.stream();
  b.kernel(heavy, 6 * kMs);
  b.kernel(light, 6 * kMs);
  b.at(4 * kMs);
  EXPECT(b.model.busy_ns(0) == 3 * kMs && b.model.busy_ns(1) == kMs);
  b.at(100 * kMs);
  EXPECT(b.end(heavy) == 7 * kMs && b.end(light) == 12 * kMs);
  return 0;
}

int an_idle_process_yields_at_once_or_keeps_its_slice() {
  for (const int holds : {0, 1}) {
    Bench b({.slice_ns = kMs, .switch_ns = 50 * kUs, .idle_holds = holds});
    const int first = b.stream();
    const int second = b.stream();
    b.kernel(first, 200 * kUs);
    b.kernel(second, 100 * kUs);
    EXPECT(b.model.earliest_end(second, 0) <= kBegin + (holds == 0 ? 350 : 1150) * kUs);
    b.at(500 * kUs);
    if (holds != 0) EXPECT(b.model.earliest_end(second, 0) >= kBegin + 1100 * kUs);
    b.at(10 * kMs);
    EXPECT(b.end(first) == 200 * kUs);
    EXPECT(b.end(second) == (holds == 0 ? 200 + 50 + 100 : 1000 + 50 + 100) * kUs);
    b.at(20 * kMs);
    b.kernel(first, 100 * kUs);  // long after: the slice in which the other one ran is over
    b.at(30 * kMs);
    EXPECT(b.end(first, 1) == 20 * kMs + 150 * kUs);
  }
  return 0;
}

// A killed neighbour gives its share back, and what a dead process ran is not counted on.
int a_neighbours_death_gives_its_share_back() {
  Bench b({.sharing = Sharing::mps});
  const int a = b.stream();
  const int process = b.process();
  const int c = b.model.open_stream(process, 0);
  b.kernel(a, 100 * kUs);
  b.kernel(c, 100 * kMs);
  b.at(100 * kUs);
  b.model.retire(process);
  b.at(kMs);
  EXPECT(b.end(a) == 150 * kUs);
  EXPECT(b.state->history[0].work_ns == 50 * kUs && b.state->running == 0);
  return 0;
}

// What a caller that died in the middle left behind is found out anew.
int repair_counts_what_runs() {
  Bench b({.sharing = Sharing::mps});
  const int a = b.stream();
  const int c = b.stream();
  b.kernel(a, 100 * kUs);
  b.kernel(c, 100 * kUs);
  b.at(40 * kUs);
  b.state->running = 77;
  b.state->slots[0] = 0;
  b.state->on_compute[0] = 0;
  b.state->clients = 0;
  b.state->processes[1].running = 3;
  b.model.repair();
  b.at(kMs);
  EXPECT(b.end(a) == 200 * kUs && b.end(c) == 200 * kUs);
  EXPECT(b.state->running == 0 && b.state->processes[1].running == 0 && b.state->clients == 3);
  return 0;
}

constexpr Case kCases[] = {
    CASE(what_fits_together_runs_at_full_speed),
    CASE(beyond_the_device_all_slow_in_proportion),
    CASE(small_and_large_slow_alike),
    CASE(many_changes_of_speed_lose_nothing),
    CASE(overlap_slows_only_beside_another_process),
    CASE(below_normal_gets_what_normal_leaves),
    CASE(below_normal_does_not_begin_on_a_full_device),
    CASE(resident_blocks_keep_their_places_for_a_block),
    CASE(a_low_kernel_of_one_wave_keeps_its_places_to_its_end),
    CASE(places_are_held_against_normal_kernels_alone),
    CASE(a_process_runs_no_more_kernels_at_once_than_it_may),
    CASE(at_most_128_kernels_run_at_once),
    CASE(mps_clients_take_turns_with_others_as_one),
    CASE(a_slice_is_as_long_as_its_process_weighs),
    CASE(an_idle_process_yields_at_once_or_keeps_its_slice),
    CASE(a_neighbours_death_gives_its_share_back),
    CASE(repair_counts_what_runs),
};

}  // namespace

int main(int argc, char** argv) { return run_cases(kCases, argc, argv); }
