// Which share of the device a kernel takes while it runs, from its launch configuration: for the emulated driver's
// launches and the simulator's recordings alike. Pure arithmetic on the limits of limits.hpp, after the occupancy rules
// of NVIDIA's CUDA programming guide: threads, registers, shared memory and blocks of a multiprocessor, the scarcest
// counts. It knows nothing of memory bandwidth.
#pragma once

#include <algorithm>
#include <cstdint>

#include "limits.hpp"

namespace emu {

// A kernel's launch configuration, as far as its residency depends on it.
struct Footprint {
  uint64_t blocks = 0;
  int block_threads = 0;
  int registers = 0;          // of a thread; 0: not known, the registers limit nothing
  uint64_t shared_bytes = 0;  // of a block
};

struct Occupancy {
  double demand = 1;  // share of the device, above 0 and at most 1; 1 where nothing is known
  uint64_t waves = 1;  // how often its blocks fill the places that they can have, one filling after another
};

// How many blocks of this kind one multiprocessor holds at once; 0: not even one.
constexpr int blocks_per_multiprocessor(const Footprint& kernel) {
  constexpr auto rounded_up = [](uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; };
  if (kernel.block_threads <= 0) return 0;
  const uint64_t threads = rounded_up(static_cast<uint64_t>(kernel.block_threads), limits::kWarp);
  const uint64_t shared = limits::kReservedSharedPerBlock + rounded_up(kernel.shared_bytes, limits::kSharedUnit);
  uint64_t fit = std::min<uint64_t>({limits::kBlocksPerMultiprocessor, limits::kThreadsPerMultiprocessor / threads,
                                     limits::kSharedPerMultiprocessor / shared});
  if (kernel.registers > 0) {
    const auto registers = static_cast<uint64_t>(limits::allocated_registers(kernel.registers));
    fit = std::min(fit, limits::kRegistersPerMultiprocessor / (threads * registers));
  }
  return static_cast<int>(fit);
}

// `multiprocessors`: how many the kernel may use, fewer than the device has for an MPS client with an active thread
// percentage. The demand is of the whole device all the same. A block that fits nowhere takes a multiprocessor.
constexpr Occupancy occupancy(const Footprint& kernel, int multiprocessors = limits::kMultiprocessors) {
  if (kernel.blocks == 0 || kernel.block_threads <= 0)
    return {.demand = static_cast<double>(multiprocessors) / limits::kMultiprocessors};
  const auto each = static_cast<uint64_t>(std::max(blocks_per_multiprocessor(kernel), 1));
  const uint64_t places = each * static_cast<uint64_t>(multiprocessors);
  const uint64_t resident = std::min(kernel.blocks, places);
  return {.demand = static_cast<double>(resident) / static_cast<double>(each * limits::kMultiprocessors),
          .waves = (kernel.blocks + places - 1) / places};
}

// A fill or a copy within the device, as a kernel whose threads move 16 bytes each.
constexpr Footprint footprint_of_bytes(uint64_t bytes) {
  constexpr uint64_t kBytesPerThread = 16;
  constexpr int kThreads = 256;
  const uint64_t blocks = (bytes + kBytesPerThread * kThreads - 1) / (kBytesPerThread * kThreads);
  return {.blocks = std::max<uint64_t>(blocks, 1), .block_threads = kThreads};
}

}  // namespace emu
