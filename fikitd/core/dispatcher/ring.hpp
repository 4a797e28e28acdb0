// Reads a client's ring of reports. The writer is untrusted and may be killed between any two stores.
#pragma once

#include <cstdint>
#include <utility>

#include "fikit_protocol.h"
#include "tracking/client_page.hpp"

namespace fikit::dispatcher {

using tracking::Report;

class Ring {
 public:
  // The next whole report, oldest first. False: none now. A report that its writer claimed but has not finished (its thread
  // lost its core in the middle) holds up those behind it, all of them of this client, for kStallNs; then it is skipped, and
  // so is at once what else had been claimed before the wait.
  bool next(const fikit_page& page, std::int64_t now_ns, Report& report);

  // The writer is gone: it finishes nothing any more.
  void writer_gone() { patience_ns_ = 0; }

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
  // As long as a thread may wait for its core on a busy node. A lost DONE would hold others for a lease.
  static constexpr std::int64_t kStallNs = 20'000'000;
  std::uint64_t tail_ = 0;
  std::int64_t patience_ns_ = kStallNs;
  std::int64_t waiting_since_ns_ = 0; // for a report to be finished
  std::uint64_t waiting_head_ = 0;    // what is below had been claimed then
  bool lost_ = false;
};

} // namespace fikit::dispatcher
