// A time that is not known, as eight equally probable ones: what a policy is told of the future.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "progress.hpp"

namespace fikit::policy {

struct Times {
  static constexpr std::size_t kCount = 8;
  // Ascending: the 1/16, 3/16, ... 15/16 quantiles. All 0, when nothing is known: it is due at any moment, and the longer it
  // has not come the longer it is expected to take.
  std::array<std::int64_t, kCount> ns{};

  // How much before `until_ns` will it be, on average, if it has not been by `from_ns`; never negative. Between the eight
  // the distribution is even, beyond the last one it decays exponentially.
  double mean_before(std::int64_t from_ns, std::int64_t until_ns) const;
  // If it is always about as long: no more than this, but now and then; kUnknown: it is not.
  std::int64_t usual_ns() const {
    constexpr std::int64_t kAboutNs = 50'000;
    const std::int64_t most_ns = ns[kCount - 3];
    return most_ns < 2 * ns.front() + kAboutNs ? most_ns : kUnknown;
  }
  // Nearly always longer than this.
  std::int64_t low_ns() const { return ns[1]; }
};

// mean_before() from one moment, to be asked about many: most of the work is done once.
class Remaining {
 public:
  Remaining() = default;
  Remaining(const Times& times, std::int64_t from_ns) { begin(times, from_ns); }
  void begin(const Times& times, std::int64_t from_ns); // anew
  double mean_before(std::int64_t until_ns) const { return at(until_ns).mean_ns; }
  struct At {
    double mean_ns = 0;
    double share = 0; // of what is to come has come by then: so steep the mean is there, and nowhere behind it less
  };
  At at(std::int64_t until_ns) const;

 private:
  double share_at(std::size_t step, double t) const;

  // Between two of the times, a step, the distribution is even. Step i begins at bounds_[i].
  std::array<double, Times::kCount + 1> bounds_{};
  std::array<double, Times::kCount> before_{}; // the integral of the shares from from_ to the beginning of a step
  double from_ = 0;
  double share_at_from_ = 0; // has come by then
  double tail_ns_ = 1;       // mean of what comes after the last
  double all_ = 0;           // the integral up to the last
  bool late_ = false;        // it is later than the last
};

} // namespace fikit::policy
