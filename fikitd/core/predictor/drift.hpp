// Notices that a kernel has begun to take another time than it used to: other data, other clocks, a hot card.
#pragma once

#include <cstdint>

#include "statistics.hpp"

namespace fikit::predictor {

// An exponentially weighted mean of measured / known durations of one kernel in one context. A shift counts only where it
// is more than chance would do to such a mean, judged by how much the kernel varies anyway.
class Drift {
 public:
  static constexpr std::uint64_t kSettled = 16; // runs that make a reference
  static constexpr double kChange = 0.3;        // so much more or less is another time

  // One more measurement; `known`: the statistics without it. True, once: it now takes 30 % more or less than it did, and
  // what was known says nothing any more. Starts anew then.
  bool add(std::int64_t ns, const Statistics& known);

  // What it takes now, where that differs from what is known; negative: it does not.
  double level_ns() const;

 private:
  float reference_ns_ = 0; // 0: too little is known yet to compare with
  float noise_ = 0;        // standard deviation of ratio_ when nothing changes
  float ratio_ = 1;
};

} // namespace fikit::predictor
