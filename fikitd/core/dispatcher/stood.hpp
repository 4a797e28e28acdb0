// For how long a client's work stood on the device while lower clients' work ran there. It is counted when that is complete:
// then it is known when it ran, also where it came between works of a host that has launched much and waits.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "policy/clients.hpp"

namespace fikit::dispatcher {

// The device worked for somebody, as far as is known.
struct Ran {
  std::int64_t from_ns = 0;
  std::int64_t until_ns = 0;
};

// What a client launched on its grants, and is not known to be complete.
class Outstanding {
 public:
  // duration_ns: predicted; negative: unknown, which counts nothing.
  void launched(std::uint32_t request, std::int64_t duration_ns) {
    if (count_ == 0 || works_[count_ - 1].request != request) {
      if (count_ == works_.size()) return; // a liar, or marks that are never reached
      works_[count_++] = {.request = request, .length_ns = 0};
    }
    works_[count_ - 1].length_ns += std::clamp<std::int64_t>(duration_ns, 0, policy::kHorizonNs);
  }
  // All up to that of this grant is complete. Its length together.
  std::int64_t done(std::uint32_t request) {
    const auto live_end = works_.begin() + static_cast<std::ptrdiff_t>(count_);
    const auto last = std::find_if(works_.begin(), live_end, [&](const Work& work) { return work.request == request; });
    return last == live_end ? 0 : take(static_cast<std::size_t>(last - works_.begin()) + 1);
  }
  std::int64_t all_done() { return take(count_); }

 private:
  struct Work {
    std::uint32_t request = 0;
    std::int64_t length_ns = 0;
  };
  std::int64_t take(std::size_t count) {
    std::int64_t length_ns = 0;
    for (std::size_t i = 0; i < count; ++i) length_ns += works_[i].length_ns;
    std::move(works_.begin() + static_cast<std::ptrdiff_t>(count), works_.begin() + static_cast<std::ptrdiff_t>(count_),
              works_.begin());
    count_ -= count;
    return length_ns;
  }
  std::array<Work, 2 * policy::kMaxGrants> works_{}; // oldest first
  std::size_t count_ = 0;
};

// The device works for one at a time. While lower work runs, the client's stands still; else the device works it off.
class Stood {
 public:
  // Of so much by prediction; unknown or negative: nothing.
  void launched(std::int64_t t_ns, std::int64_t length_ns) {
    Change& change = next(t_ns);
    change.more_ns = std::min(change.more_ns + std::max<std::int64_t>(0, length_ns), policy::kHorizonNs);
  }
  // All but so much of what was launched is complete.
  void left(std::int64_t t_ns, std::int64_t left_ns) {
    Change& change = next(t_ns);
    change.left_ns = std::min(left_ns, policy::kHorizonNs);
    change.more_ns = 0;
  }
  // This was counted already.
  void counted(std::int64_t until_ns) { counted_ns_ = std::max(counted_ns_, until_ns); }
  // Lower work ran. The client's was seen on the device at seen_ns, whatever predictions say. Of the time that was not counted
  // before: in how much of it had the client work there?
  std::int64_t beside(const Ran& lower, std::int64_t seen_ns) {
    seen_ns_ = seen_ns;
    go_on(lower.from_ns, false);
    go_on(std::min(counted_ns_, lower.until_ns), true);
    counted(lower.until_ns);
    return go_on(lower.until_ns, true);
  }

 private:
  struct Change {
    std::int64_t t_ns = 0;
    std::int64_t left_ns = policy::kUnknown; // of what was there before; unknown: as much as is reckoned
    std::int64_t more_ns = 0;
  };
  Change& next(std::int64_t t_ns) {
    if (count_ == kKept) go_on(changes_[begin_].t_ns, false); // nobody has said that lower work ran
    if (count_ > 0) t_ns = std::max(t_ns, changes_[(begin_ + count_ - 1) % kKept].t_ns);
    Change& change = changes_[(begin_ + count_++) % kKept];
    change = {.t_ns = t_ns};
    return change;
  }
  // To t_ns, with lower work on the device or without. In how much of it had the client work there?
  std::int64_t go_on(std::int64_t t_ns, bool stands) {
    std::int64_t there_ns = 0;
    for (; count_ > 0 && changes_[begin_].t_ns <= t_ns; begin_ = (begin_ + 1) % kKept, --count_) {
      const Change& change = changes_[begin_];
      there_ns += pass(change.t_ns, stands);
      work_ns_ = std::min((change.left_ns < 0 ? work_ns_ : change.left_ns) + change.more_ns, policy::kHorizonNs);
    }
    return there_ns + pass(t_ns, stands);
  }
  std::int64_t pass(std::int64_t t_ns, bool stands) {
    const std::int64_t passed_ns = std::max<std::int64_t>(0, t_ns - now_ns_);
    now_ns_ += passed_ns;
    if (work_ns_ == 0) return 0;
    if (stands) return passed_ns;
    work_ns_ = std::max<std::int64_t>(work_ns_ - passed_ns, now_ns_ < seen_ns_ ? 1 : 0);
    return 0;
  }

  static constexpr std::size_t kKept = 512; // more than are reported between two works of lower clients
  std::array<Change, kKept> changes_{};     // that are not worked off yet, oldest first
  std::size_t begin_ = 0;
  std::size_t count_ = 0;
  std::int64_t now_ns_ = 0;  // until then it was worked off
  std::int64_t work_ns_ = 0; // what is left of it then
  std::int64_t seen_ns_ = policy::kLongAgo;
  std::int64_t counted_ns_ = 0;
};

} // namespace fikit::dispatcher
