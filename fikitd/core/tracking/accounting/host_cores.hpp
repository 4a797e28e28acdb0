// Tells a pause of the program from a host that had no processor core, by Linux's count of the time without a core. The count is read at
// most once in kReadNs and at the end of a pause, and only when the client has reported something: no launch waits for it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "types/moments.hpp"

namespace fikit::tracking {

// t_ns is when something happened, now_ns >= t_ns when fikitd learns of it and can read the count. What was read after a gap began says
// nothing about the gap's beginning: a gap counts from the newest reading that is at most kReadNs younger than its beginning.
class HostCores {
 public:
  // All that the client launched is known to be complete. read() returns for how long its host has so far been without a core, or kUnknown.
  template <typename Read>
  void all_done(std::int64_t t_ns, std::int64_t now_ns, const Read& read) {
    idle_since_ns_ = t_ns;
    if (newest_.at_ns <= t_ns) before_ = newest_;
    if (newest_.at_ns != kLongAgo && now_ns - newest_.at_ns < kReadNs) return;
    newest_ = {.at_ns = now_ns, .waited_ns = read()};
    if (now_ns - t_ns < kReadNs || before_.waited_ns < 0) before_ = newest_;
  }

  // For how much of the gap until this launch the host had no core; 0 where the gap is shorter than a pause, or nothing is known. When between
  // the two readings the host had none is not known: beyond kReadNs of other time there, the gap gets its share by length.
  template <typename Read>
  std::int64_t launched(std::int64_t t_ns, std::int64_t now_ns, const Read& read) {
    const std::int64_t idle_ns = idle_since_ns_ == kLongAgo ? 0 : t_ns - idle_since_ns_;
    idle_since_ns_ = kLongAgo;
    if (idle_ns < kPauseNs || before_.waited_ns < 0) return 0;
    if (newest_.at_ns != now_ns) newest_ = {.at_ns = now_ns, .waited_ns = read()};
    if (newest_.waited_ns < before_.waited_ns) return 0;
    const std::int64_t waited_ns = newest_.waited_ns - before_.waited_ns;
    const std::int64_t other_ns = std::max<std::int64_t>(newest_.at_ns - before_.at_ns - idle_ns - kReadNs, 0);
    const double share = static_cast<double>(idle_ns) / static_cast<double>(idle_ns + other_ns);
    const std::int64_t no_core_ns = std::clamp(static_cast<std::int64_t>(share * static_cast<double>(waited_ns)),
                                               std::int64_t{0}, std::min(waited_ns, idle_ns));
    before_ = {.at_ns = std::max(before_.at_ns, t_ns), .waited_ns = before_.waited_ns + no_core_ns};
    return no_core_ns;
  }

 private:
  static constexpr std::int64_t kReadNs = 20'000'000; // so much wait from before a gap may count as in it

  struct Reading {
    std::int64_t at_ns = kLongAgo;
    std::int64_t waited_ns = kUnknown; // without a core
  };
  std::int64_t idle_since_ns_ = kLongAgo;
  Reading newest_;
  Reading before_; // of the gap that begins at idle_since_ns_, less what earlier gaps got of it
};

} // namespace fikit::tracking
