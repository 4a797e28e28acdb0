// Is spinning worth it? While a launch waits, the next event either follows the last one closely, again and again, and
// then spinning for it saves a sleep and a wake-up; or it does not, and spinning only takes a core from those who would
// bring it about. What the last few times were like decides.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fikit::dispatcher {

class Spin {
 public:
  explicit Spin(std::int64_t longest_ns) : longest_ns_(longest_ns) {}

  // The first event after the last ones were acted upon came so much later (negative: sooner).
  void came_after(std::int64_t ns) {
    const std::int64_t seen_ns = std::clamp<std::int64_t>(ns, 0, kRemembered * longest_ns_);
    usual_ns_ += (seen_ns - usual_ns_) / kLast;
  }
  // For so long after acting upon the last ones spin for the next; 0: do not.
  std::int64_t limit_ns() const { return usual_ns_ <= longest_ns_ ? longest_ns_ : 0; }

 private:
  static constexpr std::int64_t kLast = 8;
  static constexpr std::int64_t kRemembered = 4; // a pause of any length is forgotten after a few short ones
  std::int64_t longest_ns_;
  std::int64_t usual_ns_ = 0;
};

} // namespace fikit::dispatcher
