// What is known of the GPU that a policy decides about.
#pragma once

#include <cstdint>

#include "progress.hpp"

namespace fikit::policy {

// How processes share it.
enum class Sharing : std::uint8_t {
  unknown,
  slices, // they take turns, and a change costs time
  overlap // kernels of all run side by side (MPS): nothing is changed, and nothing costs
};

struct Device {
  Sharing sharing = Sharing::unknown;
  std::int64_t switch_ns = kUnknown; // from the end of one process's work to the beginning of another's
  std::int64_t spread_ns = kUnknown; // the true one is probably no further away
  std::uint32_t samples = 0;         // of this run; 0: an earlier one measured it
};

} // namespace fikit::policy
