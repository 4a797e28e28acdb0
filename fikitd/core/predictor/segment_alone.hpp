// What a client's work would be like were it alone on the device: reckoned launch by launch from one wait of its host to the next.
// What is launched between two waits is called a segment here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "types/moments.hpp"

namespace fikit::predictor {

class SegmentAlone {
 public:
  SegmentAlone() = default;
  // A launch at t_ns of predicted length (negative: unknown), which takes in_line_ns more of the device where it stands in line.
  void launched(std::int64_t t_ns, std::int64_t duration_ns, std::int64_t in_line_ns) {
    if (launches_++ == 0) *this = SegmentAlone(t_ns);
    last_ns_ = t_ns;
    exact_ = exact_ && duration_ns >= 0;
    const std::int64_t takes_ns = std::clamp<std::int64_t>(duration_ns, 0, kHorizonNs) + (dry_ns_ > t_ns ? in_line_ns : 0);
    dry_ns_ = std::min(std::max(dry_ns_, t_ns) + takes_ns, t_ns + kHorizonNs);
    work_ns_ += takes_ns;
  }
  // The host has waited for all of it; what comes next is another segment.
  void waited() { launches_ = 0; }

  std::size_t launches() const { return launches_; }
  bool exact() const { return exact_; } // all lengths are known
  std::int64_t first_ns() const { return first_ns_; }
  std::int64_t last_ns() const { return last_ns_; }
  std::int64_t dry_ns() const { return dry_ns_; }   // the segment's work is over
  std::int64_t work_ns() const { return work_ns_; } // device time of it

  // When the host's wait would end: so much later than the work, as reckoned, and than the wait's own beginning (after_ns), where both
  // are known. Else when the work is over, and not before the host came to wait: that was at began_ns, or the usual time after the
  // last launch. kLongAgo: nobody knows.
  std::int64_t wait_end_ns(std::int64_t began_ns, std::int64_t after_ns, std::int64_t tail_ns) const {
    if (began_ns == kLongAgo) return std::max(dry_ns_, last_ns_ + std::max<std::int64_t>(tail_ns, 0));
    if (after_ns == kLongAgo) return std::max(dry_ns_, began_ns);
    return std::max(dry_ns_ + after_ns, began_ns + std::max<std::int64_t>(after_ns, 0));
  }

 private:
  explicit SegmentAlone(std::int64_t t_ns) : launches_(1), first_ns_(t_ns), dry_ns_(t_ns) {}

  std::size_t launches_ = 0; // of the segment
  bool exact_ = true;
  std::int64_t first_ns_ = 0;
  std::int64_t last_ns_ = 0;
  std::int64_t dry_ns_ = 0;
  std::int64_t work_ns_ = 0;
};

} // namespace fikit::predictor
