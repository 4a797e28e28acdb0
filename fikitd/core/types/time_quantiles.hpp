// A time that is not known, as eight equally probable ones: what the predictor says, and a policy is told, of the future.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "moments.hpp"

namespace fikit {

struct TimeQuantiles {
  static constexpr std::size_t kCount = 8;
  // The share of what is to come that has come by the i-th of them: 1/16, 3/16, ... 15/16.
  static constexpr double share(std::size_t i) { return (2 * static_cast<double>(i) + 1) / (2 * kCount); }

  // Ascending. All 0, when nothing is known: it is due at any moment, and the longer it has not come the longer it is expected to
  // take.
  std::array<std::int64_t, kCount> ns{};

  // If it is always about as long: no more than this, but now and then; kUnknown: it is not.
  std::int64_t usual_ns() const {
    constexpr std::int64_t kAboutNs = 50'000;
    const std::int64_t most_ns = ns[kCount - 3];
    return most_ns < 2 * ns.front() + kAboutNs ? most_ns : kUnknown;
  }
  // What could come at once has come before this: a little longer than it ever takes at least.
  static constexpr std::int64_t kAtOnceNs = 50'000;
  std::int64_t late_ns() const { return ns.front() + kAtOnceNs + 1; }
  // Nearly always longer than this.
  std::int64_t low_ns() const { return ns[1]; }
};

} // namespace fikit
