// When a client copies next between host and device, in one direction. If another client's copy is under way then, it delays this one,
// because the device makes the copies of one direction one after the other.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "progress.hpp"
#include "residual_time.hpp"

namespace fikit::policy {

// The parts of the device that work at the same time: the kernels' one, and one for copies in each direction.
enum class Engine : std::uint8_t { compute, to_device, to_host };
inline constexpr std::array<std::string_view, 3> kEngineNames{"compute", "to_device", "to_host"};
inline constexpr std::size_t kCopyEngines = 2;
constexpr std::size_t copy_engine(Engine engine) { return engine == Engine::to_host ? 1 : 0; }
using CopyEngines = std::array<bool, kCopyEngines>;

// Shorter copies, which take 50 to 200 us, pass the gate: asking would delay their job by as much as they can delay others.
inline constexpr std::uint64_t kLongCopyBytes = std::uint64_t{1} << 20;

class Copying {
 public:
  void copied(std::int64_t t_ns, const TimeQuantiles& until_next) {
    last_ns_ = t_ns;
    until_next_ = until_next;
  }
  bool known() const { return last_ns_ != kLongAgo; } // the client has copied in that direction
  bool expected(std::int64_t now_ns) const { return known() && now_ns - last_ns_ < kGoneNs; }
  // How much later than alone the client's next copy will be, on average, if another client's copy lasts until then.
  double mean_delay_ns(std::int64_t until_ns, std::int64_t now_ns) const {
    return ResidualTime(until_next_, now_ns - last_ns_).mean_before(until_ns - last_ns_);
  }
  // The same if the next copy comes as soon as it may.
  std::int64_t longest_delay_ns(std::int64_t until_ns, std::int64_t now_ns) const {
    return std::max<std::int64_t>(0, until_ns - std::max(now_ns, last_ns_ + until_next_.ns.front()));
  }

 private:
  static constexpr std::int64_t kGoneNs = 10'000'000'000;
  std::int64_t last_ns_ = kLongAgo;
  TimeQuantiles until_next_;
};

} // namespace fikit::policy
