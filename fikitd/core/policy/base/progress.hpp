// Dead reckoning: when does a client's queue on the device run dry? (architecture D8)
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "types/moments.hpp"

namespace fikit::policy {

using fikit::kHorizonNs;
using fikit::kLongAgo;
using fikit::kNever;
using fikit::kUnknown;

// At t_ns all but the last remaining_ns of predicted work was known to be complete (0: all; kUnknown: cannot say), and at
// since_ns it was not (kLongAgo: nobody had looked). spread_ns: by how much the predictions behind the reckoning may well be
// exceeded (kUnknown: by anything).
struct Completion {
  std::int64_t t_ns = 0;
  std::int64_t since_ns = kLongAgo;
  std::int64_t remaining_ns = 0;
  std::int64_t spread_ns = kUnknown;
};

class Progress {
 public:
  Progress() = default;
  explicit Progress(std::int64_t now_ns) : finish_ns_(now_ns) {}

  // A launch of predicted length (or kUnknown) at t_ns; the device is taken by others until device_free_ns, and needs
  // in_line_ns between two works of this client that wait in line.
  void launched(std::int64_t t_ns, std::int64_t device_free_ns, std::int64_t duration_ns, std::int64_t lease_ns,
                std::int64_t in_line_ns = 0) {
    if (duration_ns < 0) {
      unknown_until_ns_ = std::max(unknown_until_ns_, t_ns + lease_ns);
      return;
    }
    if (uncertain() && t_ns >= unknown_until_ns_) { // that work had its lease
      finish_ns_ = std::max(finish_ns_, unknown_until_ns_);
      unknown_until_ns_ = kNoUnknown;
    }
    const std::int64_t start_ns = std::max({t_ns, finish_ns_, std::min(device_free_ns, t_ns + kHorizonNs)});
    if (start_ns > finish_ns_) overrun_ns_ = 0; // the reckoning begins anew
    const bool in_line = start_ns == finish_ns_ && start_ns > t_ns;
    const std::int64_t takes_ns = std::min(duration_ns, kHorizonNs) + (in_line ? in_line_ns : 0);
    finish_ns_ = std::min(start_ns + takes_ns, t_ns + kHorizonNs);
  }

  void drained(const Completion& seen, std::int64_t lease_ns) {
    const std::int64_t reckoned_ns = finish_ns_ - std::exchange(overrun_ns_, 0);
    if (seen.remaining_ns < 0) {
      unknown_until_ns_ = seen.t_ns + lease_ns;
      return;
    }
    const std::int64_t remaining_ns = std::min(seen.remaining_ns, kHorizonNs);
    // Somewhere between the two moments it became true. The reckoned moment, where there is one and it lies between them,
    // is the best guess: a host that synchronises late says "dry by now", and a mark is seen when somebody looks. Nobody
    // having looked before, the earlier end is the careful one: the gap behind it is believed to be over sooner. So it is
    // when the work seems later than its kernels' variation explains: then the report was late.
    const bool reckoned = !uncertain() && (remaining_ns == 0 || seen.since_ns != kLongAgo);
    std::int64_t guess_ns = reckoned ? reckoned_ns - remaining_ns : seen.t_ns;
    if (seen.since_ns != kLongAgo) {
      const std::int64_t missing_ns = std::min(seen.since_ns, seen.t_ns) - kReportNs;
      const bool explained = !reckoned || seen.spread_ns < 0 || missing_ns - guess_ns <= seen.spread_ns;
      if (explained) guess_ns = std::max(guess_ns, missing_ns);
    }
    finish_ns_ = std::min(guess_ns, seen.t_ns) + remaining_ns;
    unknown_until_ns_ = kNoUnknown;
  }

  // At now_ns, work in front of the last remaining_ns of predicted work was still under way. What is overdue is expected
  // soon, then less and less soon, for a lease at most: its stream may stand still for a reason of its own.
  void running(std::int64_t now_ns, std::int64_t remaining_ns, std::int64_t lease_ns) {
    if (remaining_ns < 0 || uncertain()) return;
    const std::int64_t late_ns = now_ns + std::min(remaining_ns, kHorizonNs) - finish_ns_;
    if (late_ns < 0 || overrun_ns_ > lease_ns) return;
    const std::int64_t push_ns = late_ns + std::clamp(overrun_ns_ / 4, kShortestPushNs, kLongestPushNs);
    overrun_ns_ += push_ns;
    finish_ns_ += push_ns;
  }

  // What was reckoned from a grant starts later, because the client took the grant later.
  void delay(std::int64_t by_ns) { finish_ns_ += std::clamp<std::int64_t>(by_ns, 0, kHorizonNs); }

  // All of it is over by then; all of known length.
  void end_by(std::int64_t t_ns) {
    finish_by(t_ns);
    unknown_until_ns_ = std::min(unknown_until_ns_, t_ns);
  }

  void finish_by(std::int64_t t_ns) { finish_ns_ = std::min(finish_ns_, t_ns); }

  // What was said since `before` moves the end to no later than until_ns, or not at all (kLongAgo).
  void no_later_than(const Progress& before, std::int64_t until_ns) {
    finish_ns_ = std::min(finish_ns_, std::max(before.finish_ns_, until_ns));
    unknown_until_ns_ = std::min(unknown_until_ns_, std::max(before.unknown_until_ns_, until_ns));
  }

  // So much of what was reckoned will not be launched.
  void shorten(std::int64_t by_ns) { finish_ns_ -= std::clamp<std::int64_t>(by_ns, 0, kHorizonNs); }

  // End of all work, as far as known. Work of unknown length counts until its lease.
  std::int64_t dry_ns() const { return std::max(finish_ns_, unknown_until_ns_); }
  std::int64_t finish_ns() const { return finish_ns_; }
  bool busy(std::int64_t now_ns) const { return now_ns < dry_ns(); }
  // Work of unknown length was launched and no drain has been seen since.
  bool uncertain() const { return unknown_until_ns_ != kNoUnknown; }
  bool uncertain_at(std::int64_t now_ns) const { return uncertain() && now_ns < unknown_until_ns_; }

 private:
  static constexpr std::int64_t kNoUnknown = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t kReportNs = 30'000; // from the end of work to the moment at which its mark can be seen
  static constexpr std::int64_t kShortestPushNs = 10'000;
  static constexpr std::int64_t kLongestPushNs = 500'000;
  std::int64_t finish_ns_ = 0;
  std::int64_t overrun_ns_ = 0; // how much of finish_ns_ is no reckoning, but work that was overdue
  std::int64_t unknown_until_ns_ = kNoUnknown;
};

} // namespace fikit::policy
