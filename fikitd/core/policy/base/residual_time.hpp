// By how much something comes before a moment, on average, of which it is not known when it comes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "types/time_quantiles.hpp"

namespace fikit::policy {

// A time that is to come, and has not come by from_ns. Between the eight the distribution is even, beyond the last one it decays
// exponentially. To be asked about many moments: most of the work is done once.
class ResidualTime {
 public:
  ResidualTime() = default;
  ResidualTime(const TimeQuantiles& times, std::int64_t from_ns) { begin(times, from_ns); }
  void begin(const TimeQuantiles& times, std::int64_t from_ns); // anew
  // How much before `until_ns` will it be, on average; never negative.
  double mean_before(std::int64_t until_ns) const { return at(until_ns).mean_ns; }
  struct At {
    double mean_ns = 0;
    double share = 0; // of what is to come has come by then: so steep the mean is there, and nowhere behind it less
  };
  At at(std::int64_t until_ns) const;

 private:
  double share_at(std::size_t step, double t) const;

  // Between two of the times, a step, the distribution is even. Step i begins at bounds_[i].
  std::array<double, TimeQuantiles::kCount + 1> bounds_{};
  std::array<double, TimeQuantiles::kCount> before_{}; // the integral of the shares from from_ to the beginning of a step
  double from_ = 0;
  double share_at_from_ = 0; // has come by then
  double tail_ns_ = 1;       // mean of what comes after the last
  double all_ = 0;           // the integral up to the last
  bool late_ = false;        // it is later than the last
};

} // namespace fikit::policy
