// Which kernels of MPS clients run at the same time where the device admits them by room, in manual time.
// Usage: emu_admission CASE. Exit code 0, or 1 with the line that failed.
#include <vector>

#include "emu_beside.hpp"
#include "emu_expect.hpp"

using namespace emu;

namespace {

constexpr int64_t kSwitch = 260;  // ns, as measured on an H200

DeviceParameters by_admission(int64_t mps_switch_ns = 0, int32_t concurrency = 1) {
  return {.concurrency = concurrency,
          .sharing = Sharing::mps,
          .mps_model = MpsModel::admission,
          .mps_switch_ns = mps_switch_ns};
}

// Measured: two programs with kernels of half the GPU each took 1.002 times as long.
int halves_run_beside_each_other_at_full_speed() {
  Bench b(by_admission(kSwitch));
  const int a = b.stream();
  const int c = b.stream();
  for (int i = 0; i < 3; ++i) {
    b.kernel(a, 20 * kUs, 0.5);
    b.kernel(c, 20 * kUs, 0.5);
  }
  b.at(kMs);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT(b.end(a, i) == static_cast<int64_t>(i + 1) * 20 * kUs);
    EXPECT(b.end(c, i) == b.end(a, i));
  }
  return 0;
}

// Measured: kernels that fill the GPU did not overlap, 0.26 us passed between two of them.
int full_kernels_of_two_clients_alternate() {
  Bench b(by_admission(kSwitch));
  const int a = b.stream();
  const int c = b.stream();
  for (int i = 0; i < 3; ++i) b.kernel(a, 20 * kUs);
  for (int i = 0; i < 3; ++i) b.kernel(c, 20 * kUs);
  b.at(kMs);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT(b.end(a, i) == static_cast<int64_t>(2 * i + 1) * 20 * kUs + static_cast<int64_t>(2 * i) * kSwitch);
    EXPECT(b.end(c, i) == b.end(a, i) + kSwitch + 20 * kUs);
  }
  return 0;
}

// Measured: a lone kernel beside a program whose kernels fill the GPU waited for half of such a kernel on average, not
// for the kernels behind it.
int a_small_kernel_waits_for_the_end_of_a_full_one() {
  for (const int64_t arrives : {21 * kUs, 30 * kUs, 39 * kUs}) {
    Bench b(by_admission());
    const int chain = b.stream();
    const int small = b.stream();
    for (int i = 0; i < 50; ++i) b.kernel(chain, 20 * kUs);
    b.at(arrives);
    b.kernel(small, 20 * kUs, 0.01);
    EXPECT(b.model.earliest_end(small, 0) == kBegin + 60 * kUs);
    b.at(10 * kMs);
    EXPECT(b.end(small) == 60 * kUs && b.end(chain, 2) == 80 * kUs);
  }
  return 0;
}

// Else small kernels could keep a full one waiting for ever.
int the_first_that_does_not_fit_holds_up_those_behind() {
  Bench b(by_admission());
  const int first = b.stream();
  const int full = b.stream();
  const int small = b.stream();
  b.kernel(first, 100 * kUs, 0.1);
  b.at(kUs);
  b.kernel(full, 10 * kUs);
  b.at(2 * kUs);
  b.kernel(small, 5 * kUs, 0.1);
  b.at(kMs);
  EXPECT(b.end(full) == 110 * kUs && b.end(small) == 115 * kUs);
  return 0;
}

// What counts is when a kernel came to the head of its stream, not when it was launched.
int a_long_queue_is_no_reason_to_go_first() {
  Bench b(by_admission());
  const int queue = b.stream();
  const int other = b.stream();
  for (int i = 0; i < 3; ++i) b.kernel(queue, 10 * kUs);
  b.at(5 * kUs);
  for (int i = 0; i < 2; ++i) b.kernel(other, 10 * kUs);
  b.at(kMs);
  EXPECT(b.end(other, 0) == 20 * kUs && b.end(queue, 1) == 30 * kUs && b.end(other, 1) == 40 * kUs);
  return 0;
}

int below_normal_is_admitted_behind_all_normal_ones() {
  Bench b(by_admission());
  const int runs = b.stream();
  const int low = b.stream({.priority = 1});
  const int small_low = b.stream({.priority = 1});
  const int high = b.stream();
  b.kernel(runs, 10 * kUs, 0.6);
  b.at(kUs);
  b.kernel(low, 10 * kUs);
  b.at(2 * kUs);
  b.kernel(high, 10 * kUs);
  b.kernel(small_low, 10 * kUs, 0.1);  // fits, and two are before it
  b.at(kMs);
  EXPECT(b.end(high) == 20 * kUs && b.end(low) == 30 * kUs && b.end(small_low) == 40 * kUs);
  return 0;
}

// 100 us in 10 waves: it leaves at the end of the one it is in, and later takes up the rest.
int a_low_kernel_leaves_for_a_normal_one_at_the_end_of_its_wave() {
  Bench b(by_admission());
  const int low = b.stream({.priority = 1});
  const int high = b.stream();
  b.kernel(low, 100 * kUs, 1, 10);
  b.at(53 * kUs);
  b.kernel(high, 30 * kUs);
  b.at(92 * kUs);
  b.kernel(high, 30 * kUs);  // in the first wave after that
  b.at(kMs);
  EXPECT(b.end(high) == 90 * kUs && b.end(high, 1) == 130 * kUs);
  EXPECT(b.end(low) == 160 * kUs && b.model.work_ns(0) == 100 * kUs);
  EXPECT(b.model.busy_ns(0) == 100 * kUs && b.model.busy_ns(kNone) == 160 * kUs);
  return 0;
}

int a_kernel_keeps_its_room_against_its_equals_and_in_its_last_wave() {
  struct Kernel {
    int priority;
    uint64_t waves;
    int64_t other_at_ns;
  };
  for (const Kernel& kernel : {Kernel{0, 10, 53 * kUs}, Kernel{1, 1, 53 * kUs}, Kernel{1, 10, 93 * kUs}}) {
    Bench b(by_admission());
    const int first = b.stream({.priority = kernel.priority});
    const int other = b.stream();
    b.kernel(first, 100 * kUs, 1, kernel.waves);
    b.at(kernel.other_at_ns);
    b.kernel(other, 30 * kUs);
    b.at(kMs);
    EXPECT(b.end(first) == 100 * kUs && b.end(other) == 130 * kUs);
  }
  return 0;
}

// Room for the normal one is there before the wave ends: nobody leaves.
int nobody_leaves_where_room_comes_in_time() {
  Bench b(by_admission());
  const int low = b.stream({.priority = 1});
  const int small = b.stream();
  const int high = b.stream();
  b.kernel(low, 100 * kUs, 0.5, 2);
  b.kernel(small, 40 * kUs, 0.5);
  b.at(30 * kUs);
  b.kernel(high, 10 * kUs, 0.5);
  b.at(kMs);
  EXPECT(b.end(high) == 50 * kUs && b.end(low) == 100 * kUs);
  return 0;
}

int overlap_slows_what_is_admitted_beside_another_process() {
  DeviceParameters slower = by_admission();
  slower.overlap_slowdown = 1.5;
  Bench b(slower);
  const int a = b.stream();
  const int c = b.stream();
  b.kernel(a, 60 * kUs, 0.5);
  b.at(30 * kUs);
  b.kernel(c, 10 * kUs, 0.5);
  b.at(kMs);
  EXPECT(b.end(c) >= 45 * kUs && b.end(c) <= 45 * kUs + 1);
  EXPECT(b.end(a) >= 65 * kUs && b.end(a) <= 65 * kUs + 1);
  return 0;
}

// Who waits for a kernel sleeps until the earliest moment at which it can end: a neighbour that leaves makes that sooner.
int a_kernel_whose_neighbour_leaves_ends_no_sooner_than_was_said() {
  DeviceParameters slower = by_admission();
  slower.overlap_slowdown = 1.5;
  Bench b(slower);
  const int one_wave = b.stream({.priority = 1});
  const int many_waves = b.stream({.priority = 1});
  const int high = b.stream();
  b.kernel(one_wave, 100 * kUs, 0.3);
  b.kernel(many_waves, 200 * kUs, 0.7, 20);
  b.at(kUs);
  const int64_t bound = b.model.earliest_end(one_wave, 0);
  b.kernel(high, 10 * kUs);
  b.at(kMs);
  EXPECT(b.end(one_wave) > 100 * kUs && b.end(one_wave) < 110 * kUs && b.end(high) == b.end(one_wave) + 10 * kUs);
  EXPECT(bound <= b.end(one_wave) + kBegin);
  return 0;
}

int kernels_of_one_process_need_room_too() {
  Bench b(by_admission(0, 2));
  const int process = b.process();
  const int a = b.model.open_stream(process, 0);
  const int again = b.model.open_stream(process, 0);
  b.kernel(a, 10 * kUs, 0.6);
  b.kernel(again, 10 * kUs, 0.6);
  b.at(kMs);
  EXPECT(b.end(a) == 10 * kUs && b.end(again) == 20 * kUs);
  return 0;
}

// Demands are rounded: six sixths are a whole device.
int demands_that_add_up_to_the_device_fit() {
  Bench b(by_admission());
  std::vector<int> streams;
  for (int i = 0; i < 6; ++i) streams.push_back(b.stream());
  for (const int s : streams) b.kernel(s, 10 * kUs, 1.0 / 6);
  b.at(kMs);
  for (const int s : streams) EXPECT(b.end(s) == 10 * kUs);
  return 0;
}

int a_neighbours_death_makes_room() {
  Bench b(by_admission());
  const int process = b.process();
  b.kernel(b.model.open_stream(process, 0), 100 * kMs);
  const int waits = b.stream();
  b.kernel(waits, 10 * kUs);
  b.at(50 * kUs);
  b.model.retire(process);
  b.at(kMs);
  EXPECT(b.end(waits) == 60 * kUs);
  return 0;
}

// In time slices with an MPS server its clients are admitted in their turn; a process outside has its own turn.
int clients_of_a_server_are_admitted_in_their_turn() {
  Bench b({.slice_ns = kMs, .switch_ns = 50 * kUs, .concurrency = 2, .mps_model = MpsModel::admission});
  const int first = b.stream({.mps = true});
  const int second = b.stream({.mps = true});
  const int outside = b.process();
  const int one = b.model.open_stream(outside, 0);
  const int two = b.model.open_stream(outside, 0);
  b.kernel(first, 600 * kUs);
  b.kernel(second, 600 * kUs);
  b.kernel(one, 400 * kUs);
  b.kernel(two, 400 * kUs);
  b.at(100 * kMs);
  EXPECT(b.end(first) == 600 * kUs);
  EXPECT(b.end(one) == 1850 * kUs && b.end(two) == 1850 * kUs);  // in proportion, as without MPS
  EXPECT(b.end(second) == 1900 * kUs + 200 * kUs);
  return 0;
}

constexpr Case kCases[] = {
    CASE(halves_run_beside_each_other_at_full_speed),
    CASE(full_kernels_of_two_clients_alternate),
    CASE(a_small_kernel_waits_for_the_end_of_a_full_one),
    CASE(the_first_that_does_not_fit_holds_up_those_behind),
    CASE(a_long_queue_is_no_reason_to_go_first),
    CASE(below_normal_is_admitted_behind_all_normal_ones),
    CASE(a_low_kernel_leaves_for_a_normal_one_at_the_end_of_its_wave),
    CASE(a_kernel_keeps_its_room_against_its_equals_and_in_its_last_wave),
    CASE(nobody_leaves_where_room_comes_in_time),
    CASE(overlap_slows_what_is_admitted_beside_another_process),
    CASE(a_kernel_whose_neighbour_leaves_ends_no_sooner_than_was_said),
    CASE(kernels_of_one_process_need_room_too),
    CASE(demands_that_add_up_to_the_device_fit),
    CASE(a_neighbours_death_makes_room),
    CASE(clients_of_a_server_are_admitted_in_their_turn),
};

}  // namespace

int main(int argc, char** argv) { return run_cases(kCases, argc, argv); }
