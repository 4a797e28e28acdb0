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
  // The next finished report, oldest first. False: none now. A report that a thread has claimed but not finished (it lost its core in the
  // middle) holds up the client's later reports for kStallNs. Then it is skipped, with all other unfinished ones that were claimed before
  // that wait.
  bool next(const fikit_page& page, std::int64_t now_ns, Report& report);

  // The writing process is gone: unfinished reports stay so.
  void writer_gone() { patience_ns_ = 0; }

  // Skips what is there: it was for a previous fikitd.
  void begin_at_end(const fikit_page& page) { tail_ = page.ring_head.load(std::memory_order_acquire); }

  // It is to be read before it overflows.
  bool half_full(const fikit_page& page) const {
    return page.ring_head.load(std::memory_order_acquire) - tail_ > FIKIT_RING_ENTRIES / 2;
  }
  bool empty(const fikit_page& page) const { return page.ring_head.load(std::memory_order_acquire) == tail_; }
  std::uint64_t tail() const { return tail_; }
  bool take_lost() { return std::exchange(lost_, false); } // reports were lost since the last call

 private:
  // About how long a thread waits for a core on a busy node. (A lost DONE would hold other clients for a lease.)
  static constexpr std::int64_t kStallNs = 20'000'000;
  std::uint64_t tail_ = 0;
  std::int64_t patience_ns_ = kStallNs;
  std::int64_t waiting_since_ns_ = 0; // since when it waits for an unfinished report
  std::uint64_t waiting_head_ = 0;    // the ring's head at that time
  bool lost_ = false;
};

} // namespace fikit::dispatcher
