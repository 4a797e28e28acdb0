// How much before a given moment something comes, on average, if nobody knows when it comes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "types/time_quantiles.hpp"

namespace fikit::policy {

// The time until something that has not come by from_ns. Between the eight quantiles the distribution is even, beyond the last one it
// decays exponentially. begin() does most of the work, so that callers may ask about many moments.
class ResidualTime {
 public:
  ResidualTime() = default;
  ResidualTime(const TimeQuantiles& times, std::int64_t from_ns) { begin(times, from_ns); }
  void begin(const TimeQuantiles& times, std::int64_t from_ns); // anew
  // How much before `until_ns` will it be, on average; never negative.
  double mean_before(std::int64_t until_ns) const { return at(until_ns).mean_ns; }
  struct At {
    double mean_ns = 0;
    double share = 0; // the probability that it has come by then: the slope of the mean there, which is nowhere less after it
  };
  At at(std::int64_t until_ns) const;

 private:
  double share_at(std::size_t step, double t) const;

  // Between two of the times, a step, the distribution is even. Step i begins at bounds_[i].
  std::array<double, TimeQuantiles::kCount + 1> bounds_{};
  std::array<double, TimeQuantiles::kCount> before_{}; // the integral of the shares from from_ to the beginning of a step
  double from_ = 0;
  double share_at_from_ = 0; // the share of cases in which it has come by from_ns
  double tail_ns_ = 1;       // mean time after the last quantile
  double all_ = 0;           // the integral up to the last quantile
  bool late_ = false;        // from_ns is after the last quantile
};

} // namespace fikit::policy
