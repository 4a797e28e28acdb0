// Whether a client's host, in a gap as long as a pause of the program's own, waited for a processor core instead. The kernel's
// count is read at most once in kReadNs, and only where nothing is left on the device: no launch costs more for it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "types/moments.hpp"

namespace fikit::tracking {

class HostCores {
 public:
  // All that the client launched is known to be complete. read: for how long so far its host has waited for a core, or kUnknown.
  template <typename Read>
  void all_done(std::int64_t t_ns, const Read& read) {
    idle_since_ns_ = t_ns;
    if (t_ns - read_at_ns_ < kReadNs) return;
    read_at_ns_ = t_ns;
    waited_ns_ = read();
  }

  // Of a gap from then until this launch; 0 where it is no longer than a pause, or nothing is known of it.
  template <typename Read>
  std::int64_t launched(std::int64_t t_ns, const Read& read) {
    const std::int64_t idle_ns = idle_since_ns_ == kLongAgo ? 0 : t_ns - idle_since_ns_;
    idle_since_ns_ = kLongAgo;
    if (idle_ns < kPauseNs || waited_ns_ < 0) return 0;
    const std::int64_t waited_ns = read();
    return waited_ns < 0 ? 0 : std::clamp<std::int64_t>(waited_ns - waited_ns_, 0, idle_ns);
  }

 private:
  static constexpr std::int64_t kReadNs = 20'000'000; // what was waited in the time before a gap may count as waited in it

  std::int64_t idle_since_ns_ = kLongAgo;
  std::int64_t read_at_ns_ = 0;
  std::int64_t waited_ns_ = kUnknown; // then
};

} // namespace fikit::tracking
