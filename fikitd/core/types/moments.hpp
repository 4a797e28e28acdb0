// Nanoseconds that are no time. A moment is a std::int64_t on CLOCK_MONOTONIC, or in a simulation's time; so is a length.
#pragma once

#include <cstdint>
#include <limits>

namespace fikit {

inline constexpr std::int64_t kUnknown = -1; // a duration or gap that nobody can predict
inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kLongAgo = std::numeric_limits<std::int64_t>::min(); // also: nobody knows when
// No queue is believed to be longer than this, whatever the predictions add up to.
inline constexpr std::int64_t kHorizonNs = 10'000'000'000;
// Longer idle times are pauses of the program (start-up, compilation, input), and no gaps.
inline constexpr std::int64_t kPauseNs = 50'000'000;

} // namespace fikit
