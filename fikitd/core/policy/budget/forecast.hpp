// How much later than alone a client's next wait is expected to end, at one moment, by how long lower work keeps the device.
#pragma once

#include <algorithm>
#include <cstdint>

#include "policy/base/residual_time.hpp"

namespace fikit::policy::budget {

// Lower work has the device until end_ns. If the device then has to change back to the client, that takes back_ns more.
struct Fill {
  std::int64_t end_ns = 0;
  std::int64_t back_ns = 0;
};

class Forecast {
 public:
  // All of it is a delay: the client's host is about to wait for room in its queue.
  void certain(std::int64_t now_ns) { certain_ = true, origin_ns_ = earliest_ns_ = now_ns; }
  // Work on the device: the wait would end so long after `dry_ns`, when it would be done alone, as slack says.
  void in_segment(const TimeQuantiles& slack, std::int64_t dry_ns, std::int64_t from_ns, std::int64_t earliest_ns) {
    certain_ = false, rest_ = false;
    origin_ns_ = dry_ns, earliest_ns_ = earliest_ns, slack_ns_ = 0;
    left_.begin(slack, from_ns - dry_ns);
  }
  // Between two waits: the client launches so long after `since_ns` as idle says, and the first slack_ns of a delay it does not feel.
  void at_rest(const TimeQuantiles& idle, std::int64_t since_ns, std::int64_t now_ns, std::int64_t slack_ns, std::int64_t earliest_ns) {
    certain_ = false, rest_ = true;
    origin_ns_ = since_ns, earliest_ns_ = earliest_ns, slack_ns_ = slack_ns;
    left_.begin(idle, now_ns - since_ns);
  }

  // At rest the way back is felt whenever the client comes, also long after the lower work is over.
  double delay_ns(const Fill& fill) const {
    if (certain_) return static_cast<double>(std::max<std::int64_t>(0, fill.end_ns + fill.back_ns - origin_ns_));
    if (!rest_) return left_.mean_before(fill.end_ns + fill.back_ns - origin_ns_);
    const std::int64_t felt_ns = fill.back_ns - slack_ns_;
    return static_cast<double>(std::max<std::int64_t>(0, felt_ns)) +
           left_.mean_before(fill.end_ns + std::min<std::int64_t>(0, felt_ns) - origin_ns_);
  }
  // If everything comes as badly as it ever does.
  std::int64_t worst_ns(const Fill& fill) const { return std::max<std::int64_t>(0, fill.end_ns + fill.back_ns - earliest_ns_); }
  // How probably is a client that is at rest back by then?
  double back_by(std::int64_t t_ns) const { return certain_ ? 1 : left_.at(t_ns - origin_ns_).share; }
  // For how much longer, from now on, others may have the device for nothing: on average, until_ns at most.
  double free_ns(std::int64_t now_ns, std::int64_t until_ns) const {
    return certain_ ? 0 : std::max(0.0, static_cast<double>(until_ns - now_ns) - left_.mean_before(until_ns - origin_ns_));
  }
  std::int64_t slack_ns() const { return slack_ns_; }

 private:
  bool certain_ = false;
  bool rest_ = false;
  std::int64_t origin_ns_ = 0;
  std::int64_t earliest_ns_ = 0;
  std::int64_t slack_ns_ = 0;
  ResidualTime left_;
};

} // namespace fikit::policy::budget
