// How many launches of a client stand in its queue on the device. A driver takes about a thousand; the host that launches
// one more waits, and is late with everything that it does afterwards.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace fikit::policy {

class QueueDepth {
 public:
  static constexpr std::size_t kFull = 1024; // launches that a stream takes

  void begin() { // a segment
    most_ = std::max(most_, launches_);
    launches_ = 0, work_ns_ = 0;
  }
  void launched(std::int64_t duration_ns) {
    work_ns_ += duration_ns;
    work_at_[launches_++ / kStep % work_at_.size()] = work_ns_;
  }
  // Is the queue half full, if this much of the newest work is not complete? The host fills the other half faster than anybody can
  // decide about it. A segment that fits into the queue as a whole never fills it; a segment is expected to be no longer than the longest
  // before, until it is.
  bool high(std::int64_t remaining_ns) const {
    constexpr std::size_t kHigh = kFull / 2;
    if (launches_ < kHigh || (launches_ <= most_ && most_ < kFull)) return false;
    return work_at_[(launches_ - kHigh) / kStep % work_at_.size()] > work_ns_ - remaining_ns;
  }

 private:
  static constexpr std::size_t kStep = 16;
  std::array<std::int64_t, kFull / kStep> work_at_{}; // after every 16 launches
  std::size_t most_ = 0;                              // of a segment
  std::size_t launches_ = 0;                          // since the last wait
  std::int64_t work_ns_ = 0;                          // of them
};

} // namespace fikit::policy
