// Which share of the device a kernel takes, by hand-computed cases: 132 multiprocessors of 2048 threads, 65536
// registers, 228 KiB of shared memory and 32 blocks each. Usage: emu_occupancy CASE. Exit code 0, or 1 with the line that failed.
#include "device_model/occupancy.hpp"
#include "emu_expect.hpp"

using namespace emu;

namespace {

// 2048 threads hold two blocks of 1024: 264 places.
int a_block_of_1024_threads_takes_half_a_multiprocessor() {
  EXPECT(blocks_per_multiprocessor({.block_threads = 1024, .registers = 32}) == 2);
  EXPECT(occupancy({.blocks = 1, .block_threads = 1024, .registers = 32}).demand == 1.0 / 264);
  EXPECT(occupancy({.blocks = 132, .block_threads = 1024, .registers = 32}).demand == 0.5);
  return 0;
}

// 128 registers of 256 threads are 32768: two blocks, where the threads alone would allow eight.
int registers_limit_the_places() {
  EXPECT(blocks_per_multiprocessor({.block_threads = 256}) == 8);
  EXPECT(blocks_per_multiprocessor({.block_threads = 256, .registers = 128}) == 2);
  EXPECT(blocks_per_multiprocessor({.block_threads = 256, .registers = 121}) == 2);  // given out by the eight
  EXPECT(occupancy({.blocks = 66, .block_threads = 256, .registers = 128}).demand == 0.25);
  return 0;
}

// 100 KiB and 1 KiB for the system: two of them into 228 KiB.
int shared_memory_limits_the_places() {
  EXPECT(blocks_per_multiprocessor({.block_threads = 64, .shared_bytes = 100 * 1024}) == 2);
  EXPECT(blocks_per_multiprocessor({.block_threads = 64, .shared_bytes = 227 * 1024}) == 1);
  EXPECT(blocks_per_multiprocessor({.block_threads = 64, .shared_bytes = 228 * 1024}) == 0);
  EXPECT(occupancy({.blocks = 132, .block_threads = 64, .shared_bytes = 100 * 1024}).demand == 0.5);
  return 0;
}

int a_multiprocessor_holds_32_small_blocks() {
  EXPECT(blocks_per_multiprocessor({.block_threads = 32}) == 32);
  EXPECT(blocks_per_multiprocessor({.block_threads = 1}) == 32);  // a whole warp all the same
  EXPECT(blocks_per_multiprocessor({.block_threads = 33}) == 32);
  EXPECT(blocks_per_multiprocessor({.block_threads = 65}) == 21);
  return 0;
}

int more_blocks_than_fit_take_the_whole_device_in_waves() {
  const Occupancy full = occupancy({.blocks = 264, .block_threads = 1024});
  EXPECT(full.demand == 1 && full.waves == 1);
  const Occupancy more = occupancy({.blocks = 265, .block_threads = 1024});
  EXPECT(more.demand == 1 && more.waves == 2);
  EXPECT(occupancy({.blocks = 1'000'000, .block_threads = 1024}).waves == 3788);
  return 0;
}

int fewer_multiprocessors_bound_the_demand_and_take_more_waves() {
  const Occupancy half = occupancy({.blocks = 264, .block_threads = 1024}, 66);
  EXPECT(half.demand == 0.5 && half.waves == 2);
  EXPECT(occupancy({.blocks = 33, .block_threads = 1024}, 66).demand == 0.125);  // less than its share anyway
  return 0;
}

int what_is_not_known_takes_the_whole_device() {
  EXPECT(occupancy({}).demand == 1 && occupancy({.blocks = 4}).demand == 1 && occupancy({.block_threads = 64}).demand == 1);
  return 0;
}

// It cannot run here; what was recorded on a larger device can be played all the same.
int a_block_that_fits_nowhere_takes_a_multiprocessor() {
  EXPECT(occupancy({.blocks = 66, .block_threads = 1024, .registers = 255}).demand == 0.5);
  return 0;
}

int small_fills_leave_room() {
  EXPECT(occupancy(footprint_of_bytes(0)).demand == 1.0 / 1056 && occupancy(footprint_of_bytes(4096)).demand == 1.0 / 1056);
  EXPECT(occupancy(footprint_of_bytes(4097)).demand == 2.0 / 1056);
  EXPECT(occupancy(footprint_of_bytes(uint64_t{1} << 30)).demand == 1);
  return 0;
}

constexpr Case kCases[] = {
    CASE(a_block_of_1024_threads_takes_half_a_multiprocessor),
    CASE(registers_limit_the_places),
    CASE(shared_memory_limits_the_places),
    CASE(a_multiprocessor_holds_32_small_blocks),
    CASE(more_blocks_than_fit_take_the_whole_device_in_waves),
    CASE(fewer_multiprocessors_bound_the_demand_and_take_more_waves),
    CASE(what_is_not_known_takes_the_whole_device),
    CASE(a_block_that_fits_nowhere_takes_a_multiprocessor),
    CASE(small_fills_leave_room),
};

}  // namespace

int main(int argc, char** argv) { return run_cases(kCases, argc, argv); }
