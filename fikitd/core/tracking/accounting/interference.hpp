// For how long a client's work stood on the device while lower clients' work ran there. It is counted when that is complete:
// then it is known when it ran, also where it came between works of a host that has launched much and waits.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "policy/base/clients.hpp"

namespace fikit::tracking {

// The device worked for somebody, as far as is known.
struct Ran {
  std::int64_t launched_ns = 0;
  std::int64_t from_ns = 0; // at the latest
  std::int64_t until_ns = 0;
  bool last = false; // of what was found complete: then, and not before
};

// What a client launched on its grants, and is not known to be complete.
class Outstanding {
 public:
  static constexpr std::size_t kKept = 512; // of a liar, or with marks that are never reached, there may be more
  struct Work {
    std::uint32_t request = 0;
    std::int64_t launched_ns = 0;
    std::int64_t length_ns = 0;
  };

  // duration_ns: predicted; negative: unknown, which counts nothing.
  void launched(std::uint32_t request, std::int64_t t_ns, std::int64_t duration_ns) {
    if (count_ == kKept && at(count_ - 1).request != request) return;
    if (count_ < kKept) at(count_++) = {.request = request, .launched_ns = t_ns, .length_ns = 0};
    at(count_ - 1).length_ns += std::clamp<std::int64_t>(duration_ns, 0, policy::kHorizonNs);
  }
  std::size_t count() const { return count_; }
  // Up to the last of this grant; 0: there is none.
  std::size_t count_of(std::uint32_t request) const {
    std::size_t count = 0;
    while (count < count_ && at(count).request != request) ++count;
    if (count == count_) return 0;
    while (count < count_ && at(count).request == request) ++count;
    return count;
  }
  std::int64_t length_ns(std::size_t count) const { // of the oldest so many
    std::int64_t length_ns = 0;
    for (std::size_t i = 0; i < count; ++i) length_ns += at(i).length_ns;
    return length_ns;
  }
  Work take() { // the oldest
    const Work work = at(0);
    begin_ = (begin_ + 1) % kKept;
    --count_;
    return work;
  }

 private:
  Work& at(std::size_t i) { return works_[(begin_ + i) % kKept]; }
  const Work& at(std::size_t i) const { return works_[(begin_ + i) % kKept]; }
  std::array<Work, kKept> works_{};
  std::size_t begin_ = 0;
  std::size_t count_ = 0;
};

// The device works for one at a time, kernel by kernel. While lower work runs, the client's stands still; else the device works
// it off.
class Interference {
 public:
  // The client's launch of this number takes so long by prediction; unknown or negative: nothing.
  void launched(std::uint64_t number, std::int64_t t_ns, std::int64_t length_ns) {
    if (number != newest_ + 1) count_ = 0; // reports were lost
    if (count_ == 0) worked_ns_ = 0;
    if (count_ == kKept) make_room();
    newest_ = number;
    at(count_++) = {.launched_ns = t_ns, .length_ns = std::clamp<std::int64_t>(length_ns, 0, policy::kHorizonNs)};
  }
  // All up to this launch was complete at t_ns.
  void done(std::uint64_t number, std::int64_t t_ns) {
    for (std::size_t i = place(std::min(number, newest_)); i > 0 && at(i - 1).done_ns == policy::kNever; --i)
      at(i - 1).done_ns = t_ns;
  }
  // This launch was not.
  void missing(std::uint64_t number, std::int64_t t_ns) {
    if (const std::size_t i = place(number); i > 0) at(i - 1).missing_ns = t_ns;
  }
  // This was counted already.
  void counted(std::int64_t until_ns) { counted_ns_ = std::max(counted_ns_, until_ns); }
  // Of a lower client's work, with visit() for each: in how much of the time that was not counted before, at its end, had the
  // client work there?
  struct Time {
    std::int64_t until_ns = 0;
    std::int64_t length_ns = 0;
  };
  template <class Visit>
  void beside(std::span<const Ran> lower, Visit visit) {
    for (std::size_t i = 0; i < lower.size(); ++i) {
      if (i == 0 || lower[i - 1].last) spare_ns_ = longer_ns(lower.subspan(i));
      visit(beside(lower[i]));
    }
  }

 private:
  struct Kernel {
    std::int64_t launched_ns = 0;
    std::int64_t length_ns = 0;
    std::int64_t done_ns = policy::kNever;       // by then
    std::int64_t missing_ns = policy::kLongAgo;  // then it was not
  };
  Kernel& at(std::size_t i) { return kernels_[(begin_ + i) % kKept]; }
  // How many there are up to this launch.
  std::size_t place(std::uint64_t number) const {
    return newest_ - number < count_ ? count_ - static_cast<std::size_t>(newest_ - number) : 0;
  }
  void drop() {
    begin_ = (begin_ + 1) % kKept;
    --count_;
    worked_ns_ = 0;
  }
  // Nobody has said that lower work ran.
  void make_room() {
    go_on(at(1).launched_ns, false);
    if (count_ < kKept) return;
    at(1).length_ns = std::min(at(1).length_ns + at(0).length_ns - worked_ns_, policy::kHorizonNs);
    drop();
  }
  // A kernel is not interrupted: when lower work begins, what is left of one is a matter of its prediction, if it is little (two
  // buckets of its statistics).
  bool nearly_over() {
    return count_ > 0 && at(0).launched_ns <= now_ns_ && at(0).missing_ns <= now_ns_ &&
           worked_ns_ >= at(0).length_ns / 4 * 3;
  }
  // When the device is done with it, if it was free then.
  static std::int64_t end_ns(const Kernel& kernel, std::int64_t free_ns) {
    const std::int64_t reckoned_ns = std::max(free_ns, kernel.launched_ns) + kernel.length_ns;
    return std::max(free_ns, std::min(std::max(reckoned_ns, kernel.missing_ns), kernel.done_ns));
  }
  // The same of those from the next one on that were launched by t_ns. enough_ns: later is not looked for.
  std::int64_t served_ns(std::size_t& next, std::int64_t free_ns, std::int64_t t_ns, std::int64_t enough_ns) {
    for (; next < count_ && at(next).launched_ns <= t_ns && free_ns < enough_ns; ++next) free_ns = end_ns(at(next), free_ns);
    return free_ns;
  }
  std::int64_t free_ns(std::int64_t t_ns, std::int64_t enough_ns) {
    std::size_t next = 0;
    return std::max(now_ns_, served_ns(next, now_ns_ - worked_ns_, t_ns, enough_ns));
  }
  // How much longer did a run take than a device needs that serves everybody in the order of launching?
  std::int64_t longer_ns(std::span<const Ran> run) {
    if (run.front().last) return 0; // whatever came before it did
    std::size_t next = 0;
    std::int64_t at_ns = now_ns_ - worked_ns_;
    for (const Ran& lower : run) {
      at_ns = std::max({now_ns_, lower.launched_ns, served_ns(next, at_ns, lower.launched_ns, policy::kNever)});
      if (lower.last) return lower.from_ns - at_ns;
      at_ns += lower.until_ns - lower.from_ns;
    }
    return 0;
  }
  Time beside(const Ran& lower) {
    const std::int64_t from_ns = lower.last ? lower.from_ns : begin_ns(lower);
    go_on(from_ns, false);
    if (nearly_over()) drop();
    const std::int64_t until_ns = from_ns + (lower.until_ns - lower.from_ns);
    go_on(std::min(counted_ns_, until_ns), true);
    counted(until_ns);
    return {.until_ns = until_ns, .length_ns = go_on(until_ns, true)};
  }
  // Of a kernel of a run, if there is so much time: in the order of launching. What the run took longer, others came before it
  // that were launched later, as they do where a stream needs a moment between two kernels.
  std::int64_t begin_ns(const Ran& lower) {
    go_on(std::min(lower.launched_ns, lower.from_ns), false);
    const std::int64_t in_turn_ns = std::min(lower.from_ns, free_ns(lower.launched_ns, lower.from_ns));
    if (spare_ns_ <= 0 || in_turn_ns == lower.from_ns) return in_turn_ns;
    go_on(in_turn_ns, false);
    const std::int64_t others_ns = std::min(spare_ns_, free_ns(now_ns_, lower.from_ns) - now_ns_);
    spare_ns_ -= others_ns;
    return std::min(lower.from_ns, now_ns_ + others_ns);
  }
  // To t_ns, with lower work on the device or without. In how much of it had the client work there?
  std::int64_t go_on(std::int64_t t_ns, bool stands) {
    std::int64_t there_ns = 0;
    while (now_ns_ < t_ns) {
      if (count_ == 0 || at(0).launched_ns > now_ns_) {
        now_ns_ = count_ == 0 ? t_ns : std::min(t_ns, at(0).launched_ns);
        continue;
      }
      const std::int64_t left_ns = at(0).length_ns - worked_ns_;
      if (at(0).done_ns <= now_ns_ || (left_ns == 0 && at(0).missing_ns <= now_ns_)) {
        drop();
        continue;
      }
      std::int64_t until_ns = std::min(t_ns, at(0).done_ns);
      if (left_ns == 0) until_ns = std::min(until_ns, at(0).missing_ns);
      else if (!stands) until_ns = std::min(until_ns, std::max(now_ns_ + left_ns, at(0).missing_ns));
      if (stands) there_ns += until_ns - now_ns_;
      else worked_ns_ += std::min(left_ns, until_ns - now_ns_);
      now_ns_ = until_ns;
    }
    return there_ns;
  }

  static constexpr std::size_t kKept = 512; // more than are launched between two works of lower clients
  std::array<Kernel, kKept> kernels_{};     // that are not worked off yet, oldest first
  std::size_t begin_ = 0;
  std::size_t count_ = 0;
  std::uint64_t newest_ = 0;    // number of the last of them
  std::int64_t now_ns_ = 0;     // until then they were worked off
  std::int64_t worked_ns_ = 0;  // of the oldest
  std::int64_t counted_ns_ = 0;
  std::int64_t spare_ns_ = 0;   // of the run that is looked at
};

} // namespace fikit::tracking
