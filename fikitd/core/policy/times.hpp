// A time that is not known, as eight equally probable ones: what a policy is told of the future.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace fikit::policy {

struct Times {
  static constexpr std::size_t kCount = 8;
  // Ascending: the 1/16, 3/16, ... 15/16 quantiles. All 0, when nothing is known: it is due at any moment, and the longer it
  // has not come the longer it is expected to take.
  std::array<std::int64_t, kCount> ns{};

  // How much before `until_ns` will it be, on average, if it has not been by `from_ns`; never negative. Between the eight
  // the distribution is even, beyond the last one it decays exponentially.
  double mean_before(std::int64_t from_ns, std::int64_t until_ns) const;
  // Nearly always longer than this.
  std::int64_t low_ns() const { return ns[1]; }
};

// mean_before() from one moment, to be asked about many: most of the work is done once.
class Remaining {
 public:
  Remaining() = default;
  Remaining(const Times& times, std::int64_t from_ns);
  double mean_before(std::int64_t until_ns) const;

 private:
  // Between two of the times the distribution is even.
  struct Step {
    double begin = 0;
    double end = 0;
    double share = 0;      // of what has come by its beginning...
    double next_share = 0; // ...and by its end
    double from = 0;       // where in it the question begins
    double share_at_from = 0;
    double before = 0; // the integral of the shares, up to here
    double share_at(double t) const;
  };
  std::array<Step, Times::kCount> steps_{};
  double from_ = 0;
  double tail_ns_ = 1; // mean of what comes after the last
  double all_ = 0;     // the integral up to the last
  double at_from_ = 0; // share that has come by then
  bool late_ = false;  // it is later than the last
};

} // namespace fikit::policy
