// Decides whether to spin for the next event. Where events follow each other closely, spinning saves a sleep and a wake-up. Where they do
// not, spinning takes a core from the programs that cause the events. The last few times between events decide.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fikit::dispatcher {

class Spin {
 public:
  explicit Spin(std::int64_t longest_ns) : longest_ns_(longest_ns) {}

  // The next event came ns after the last ones had been acted upon (negative: before).
  void came_after(std::int64_t ns) {
    const std::int64_t seen_ns = std::clamp<std::int64_t>(ns, 0, kRemembered * longest_ns_);
    usual_ns_ += (seen_ns - usual_ns_) / kLast;
  }
  // For how long to spin after acting upon events; 0: do not spin.
  std::int64_t limit_ns() const { return usual_ns_ <= longest_ns_ ? longest_ns_ : 0; }

 private:
  static constexpr std::int64_t kLast = 8;
  static constexpr std::int64_t kRemembered = 4; // a pause of any length is forgotten after a few short ones
  std::int64_t longest_ns_;
  std::int64_t usual_ns_ = 0;
};

} // namespace fikit::dispatcher
