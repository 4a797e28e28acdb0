// Launches of one client that follow each other without a wait of its host. So one decision can be about several short kernels.
#pragma once

#include <cstdint>

#include "moments.hpp"

namespace fikit {

// So many, which take so much of the device together.
struct Launches {
  std::uint32_t launches = 1;
  std::int64_t work_ns = kUnknown;
};

// The predictor learns runs of launches up to these limits, and a policy grants no longer ones: of a run, and of a long one, for when
// all clients above are at rest.
inline constexpr Launches kRunLimit{.launches = 32, .work_ns = 200'000};
inline constexpr Launches kLongRunLimit{.launches = 256, .work_ns = 1'000'000};

} // namespace fikit
