// Reads a client's ring of reports. The writer is untrusted and may be killed between any two stores.
#pragma once

#include <cstdint>
#include <utility>

#include "fikit_protocol.h"

namespace fikit::dispatcher {

struct Report {
  std::int64_t t_ns = 0; // not of SAMPLE and GAP: theirs is `before`
  std::uint32_t slot = 0;
  std::uint32_t kind = 0;
  std::uint64_t value = 0;
  std::uint64_t before = 0;
};

class Ring {
 public:
  // The next whole report, oldest first. False: none now. A report that its writer claimed but has not finished after
  // kStallNs (killed in the middle) is skipped.
  bool next(const fikit_page& page, std::int64_t now_ns, Report& report);

  // What stands there was for somebody else: only what comes from now on.
  void begin_at_end(const fikit_page& page) { tail_ = page.ring_head.load(std::memory_order_acquire); }

  // About to overflow: somebody should read now.
  bool half_full(const fikit_page& page) const {
    return page.ring_head.load(std::memory_order_acquire) - tail_ > FIKIT_RING_ENTRIES / 2;
  }
  bool empty(const fikit_page& page) const { return page.ring_head.load(std::memory_order_acquire) == tail_; }
  std::uint64_t tail() const { return tail_; }
  bool take_lost() { return std::exchange(lost_, false); } // reports were lost since the last call

 private:
  static constexpr std::int64_t kStallNs = 1'000'000;
  std::uint64_t tail_ = 0;
  std::int64_t stalled_since_ns_ = 0;
  bool lost_ = false;
};

} // namespace fikit::dispatcher
