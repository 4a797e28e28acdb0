// Dead reckoning: when does a client's queue on the device run dry? (architecture D8)
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace fikit::policy {

inline constexpr std::int64_t kUnknown = -1; // a duration or gap that nobody can predict
inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
// No queue is believed to be longer than this, whatever the predictions add up to.
inline constexpr std::int64_t kHorizonNs = 10'000'000'000;

class Progress {
 public:
  Progress() = default;
  explicit Progress(std::int64_t now_ns) : finish_ns_(now_ns) {}

  // A launch of predicted length (or kUnknown) at t_ns; the device is taken by others until device_free_ns.
  void launched(std::int64_t t_ns, std::int64_t device_free_ns, std::int64_t duration_ns, std::int64_t lease_ns) {
    if (duration_ns < 0) {
      unknown_until_ns_ = std::max(unknown_until_ns_, t_ns + lease_ns);
      return;
    }
    if (uncertain() && t_ns >= unknown_until_ns_) { // that work had its lease
      finish_ns_ = std::max(finish_ns_, unknown_until_ns_);
      unknown_until_ns_ = kNoUnknown;
    }
    const std::int64_t start_ns = std::max({t_ns, finish_ns_, std::min(device_free_ns, t_ns + kHorizonNs)});
    finish_ns_ = std::min(start_ns + std::min(duration_ns, kHorizonNs), t_ns + kHorizonNs);
  }

  // At t_ns all but the last remaining_ns of predicted work was known to be complete (0: all; kUnknown: cannot say).
  void drained(std::int64_t t_ns, std::int64_t remaining_ns, std::int64_t lease_ns) {
    if (remaining_ns < 0) {
      unknown_until_ns_ = t_ns + lease_ns;
      return;
    }
    // A host that synchronises late says "dry by now": the reckoned end, where there is one, is then the better guess,
    // and the earlier end is the careful one, because the gap behind it is believed to be over sooner.
    if (remaining_ns > 0) finish_ns_ = t_ns + std::min(remaining_ns, kHorizonNs);
    else finish_ns_ = uncertain() ? t_ns : std::min(finish_ns_, t_ns);
    unknown_until_ns_ = kNoUnknown;
  }

  // What was reckoned from a grant starts later, because the client took the grant later.
  void delay(std::int64_t by_ns) { finish_ns_ += std::clamp<std::int64_t>(by_ns, 0, kHorizonNs); }

  // End of all work, as far as known. Work of unknown length counts until its lease.
  std::int64_t dry_ns() const { return std::max(finish_ns_, unknown_until_ns_); }
  std::int64_t finish_ns() const { return finish_ns_; }
  bool busy(std::int64_t now_ns) const { return now_ns < dry_ns(); }
  // Work of unknown length was launched and no drain has been seen since.
  bool uncertain() const { return unknown_until_ns_ != kNoUnknown; }
  bool uncertain_at(std::int64_t now_ns) const { return uncertain() && now_ns < unknown_until_ns_; }

 private:
  static constexpr std::int64_t kNoUnknown = std::numeric_limits<std::int64_t>::min();
  std::int64_t finish_ns_ = 0;
  std::int64_t unknown_until_ns_ = kNoUnknown;
};

} // namespace fikit::policy
