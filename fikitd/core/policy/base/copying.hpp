// When a client copies next between host and device, in one direction: a copy of another client that is under way then
// keeps it waiting, for the device makes the copies of one direction one after the other.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "progress.hpp"
#include "residual_time.hpp"

namespace fikit::policy {

// What works for a client at the same time as others work for it, or for others.
enum class Engine : std::uint8_t { compute, to_device, to_host };
inline constexpr std::array<std::string_view, 3> kEngineNames{"compute", "to_device", "to_host"};
inline constexpr std::size_t kCopyEngines = 2;
constexpr std::size_t copy_engine(Engine engine) { return engine == Engine::to_host ? 1 : 0; }
using CopyEngines = std::array<bool, kCopyEngines>;

// Shorter copies, which take 50 to 200 us, pass the gate: asking would cost their job as much as they can cost others.
inline constexpr std::uint64_t kLongCopyBytes = std::uint64_t{1} << 20;

class Copying {
 public:
  void copied(std::int64_t t_ns, const TimeQuantiles& until_next) {
    last_ns_ = t_ns;
    until_next_ = until_next;
  }
  bool known() const { return last_ns_ != kLongAgo; } // it has copied, in that direction
  bool expected(std::int64_t now_ns) const { return known() && now_ns - last_ns_ < kGoneNs; }
  // So much later than alone will its next copy be, if another one lasts until then.
  double mean_delay_ns(std::int64_t until_ns, std::int64_t now_ns) const {
    return ResidualTime(until_next_, now_ns - last_ns_).mean_before(until_ns - last_ns_);
  }
  // The same if it comes as soon as it may.
  std::int64_t longest_delay_ns(std::int64_t until_ns, std::int64_t now_ns) const {
    return std::max<std::int64_t>(0, until_ns - std::max(now_ns, last_ns_ + until_next_.ns.front()));
  }

 private:
  static constexpr std::int64_t kGoneNs = 10'000'000'000;
  std::int64_t last_ns_ = kLongAgo;
  TimeQuantiles until_next_;
};

} // namespace fikit::policy
