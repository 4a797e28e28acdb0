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

} // namespace fikit::policy
