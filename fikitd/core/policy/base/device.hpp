// What is known of the GPU that a policy decides about.
#pragma once

#include <cstdint>

#include "progress.hpp"

namespace fikit::policy {

// How processes share it.
enum class Sharing : std::uint8_t {
  unknown,
  slices, // processes take turns, and each change of turn (a switch) takes time
  overlap // kernels of all processes run side by side (MPS): there are no switches
};

struct Device {
  Sharing sharing = Sharing::unknown;
  std::int64_t switch_ns = kUnknown; // from the end of one process's work to the beginning of another's
  std::int64_t spread_ns = kUnknown; // the true cost is probably no further than this from switch_ns
  std::uint32_t samples = 0;         // how many this run of fikitd has measured; 0: an earlier run measured it
};

} // namespace fikit::policy
