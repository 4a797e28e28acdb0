// What is known of the GPU that a policy decides about.
#pragma once

#include <cstdint>

#include "progress.hpp"

namespace fikit::policy {

struct Device {
  // From the end of one process's work to the beginning of another's, where the two take turns (Client::runs_beside).
  std::int64_t switch_ns = kUnknown;
  std::int64_t spread_ns = kUnknown; // the true cost is probably no further than this from switch_ns
  std::uint32_t samples = 0;         // how many this run of fikitd has measured; 0: an earlier run measured it
};

} // namespace fikit::policy
