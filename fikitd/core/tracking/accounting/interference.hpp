// For how long a client had work on the device while lower clients' kernels ran there. A lower kernel is counted once it is known to
// be complete, for only then is it known when it ran.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "policy/base/clients.hpp"

namespace fikit::tracking {

// When one launch ran on the device, as reckoned.
struct Ran {
  std::int64_t launched_ns = 0;
  std::int64_t from_ns = 0; // the latest beginning
  std::int64_t until_ns = 0;
  bool last = false; // the newest of those that one look found complete: its end is the known one
};

// Granted launches of a client that are not known to be complete.
class Outstanding {
 public:
  static constexpr std::size_t kKept = 512; // more come only of false reports, or where marks are never reached
  struct Work {
    std::uint32_t request = 0;
    std::int64_t launched_ns = 0;
    std::int64_t length_ns = 0;
  };

  // duration_ns: predicted; negative (unknown) counts as 0.
  void launched(std::uint32_t request, std::int64_t t_ns, std::int64_t duration_ns) {
    if (count_ == kKept && at(count_ - 1).request != request) return;
    if (count_ < kKept) at(count_++) = {.request = request, .launched_ns = t_ns, .length_ns = 0};
    at(count_ - 1).length_ns += std::clamp<std::int64_t>(duration_ns, 0, policy::kHorizonNs);
  }
  std::size_t count() const { return count_; }
  // How many there are up to the last launch of this grant; 0: the grant has none.
  std::size_t count_of(std::uint32_t request) const {
    std::size_t count = 0;
    while (count < count_ && at(count).request != request) ++count;
    if (count == count_) return 0;
    while (count < count_ && at(count).request == request) ++count;
    return count;
  }
  std::int64_t length_ns(std::size_t count) const { // of the oldest `count` together
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

// Model: the device runs one kernel at a time. While a lower kernel runs, the client's work stands still; else it progresses.
class Interference {
 public:
  // A launch of the client. length_ns: predicted; negative (unknown) counts as 0.
  void launched(std::uint64_t number, std::int64_t t_ns, std::int64_t length_ns) {
    if (number != newest_ + 1) count_ = 0; // reports were lost
    if (count_ == 0) worked_ns_ = 0;
    if (count_ == kKept) make_room();
    newest_ = number;
    at(count_++) = {.launched_ns = t_ns, .length_ns = std::clamp<std::int64_t>(length_ns, 0, policy::kHorizonNs)};
  }
  // All launches up to this number were complete at t_ns.
  void done(std::uint64_t number, std::int64_t t_ns) {
    for (std::size_t i = place(std::min(number, newest_)); i > 0 && at(i - 1).done_ns == policy::kNever; --i)
      at(i - 1).done_ns = t_ns;
  }
  // The launch of this number was not complete at t_ns.
  void missing(std::uint64_t number, std::int64_t t_ns) {
    if (const std::size_t i = place(number); i > 0) at(i - 1).missing_ns = t_ns;
  }
  // Delay until then has been counted elsewhere already.
  void counted(std::int64_t until_ns) { counted_ns_ = std::max(counted_ns_, until_ns); }
  // Calls visit() for each kernel of a lower client: its end, and for how much of its time, not counted before, the client had work on
  // the device.
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
    std::int64_t done_ns = policy::kNever;       // complete by then
    std::int64_t missing_ns = policy::kLongAgo;  // not complete at this time
  };
  Kernel& at(std::size_t i) { return kernels_[(begin_ + i) % kKept]; }
  // How many of kernels_ have this number or a lower one.
  std::size_t place(std::uint64_t number) const {
    return newest_ - number < count_ ? count_ - static_cast<std::size_t>(newest_ - number) : 0;
  }
  void drop() {
    begin_ = (begin_ + 1) % kKept;
    --count_;
    worked_ns_ = 0;
  }
  // So far no lower work is known to have run after the oldest kernel: lets it progress, else adds it to the next one.
  void make_room() {
    go_on(at(1).launched_ns, false);
    if (count_ < kKept) return;
    at(1).length_ns = std::min(at(1).length_ns + at(0).length_ns - worked_ns_, policy::kHorizonNs);
    drop();
  }
  // The device does not interrupt a kernel. So when a lower one begins, a small rest of the client's kernel (two buckets of its
  // statistics) is an error of its prediction, and it is over.
  bool nearly_over() {
    return count_ > 0 && at(0).launched_ns <= now_ns_ && at(0).missing_ns <= now_ns_ &&
           worked_ns_ >= at(0).length_ns / 4 * 3;
  }
  // When the device is done with the kernel, if it was free from free_ns on.
  static std::int64_t end_ns(const Kernel& kernel, std::int64_t free_ns) {
    const std::int64_t reckoned_ns = std::max(free_ns, kernel.launched_ns) + kernel.length_ns;
    return std::max(free_ns, std::min(std::max(reckoned_ns, kernel.missing_ns), kernel.done_ns));
  }
  // The same for all kernels from `next` on that were launched by t_ns; stops once the result is enough_ns or later.
  std::int64_t served_ns(std::size_t& next, std::int64_t free_ns, std::int64_t t_ns, std::int64_t enough_ns) {
    for (; next < count_ && at(next).launched_ns <= t_ns && free_ns < enough_ns; ++next) free_ns = end_ns(at(next), free_ns);
    return free_ns;
  }
  std::int64_t free_ns(std::int64_t t_ns, std::int64_t enough_ns) {
    std::size_t next = 0;
    return std::max(now_ns_, served_ns(next, now_ns_ - worked_ns_, t_ns, enough_ns));
  }
  // How much longer the launches of a run took than on a device that serves all launches in their order.
  std::int64_t longer_ns(std::span<const Ran> run) {
    if (run.front().last) return 0; // a run of one launch: its end is known
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
  // When a kernel of a run began: in the order of launching, and no later than from_ns. Where the run took longer than that order
  // explains, kernels launched later ran before it, as they do where a stream needs a moment between two kernels.
  std::int64_t begin_ns(const Ran& lower) {
    go_on(std::min(lower.launched_ns, lower.from_ns), false);
    const std::int64_t in_turn_ns = std::min(lower.from_ns, free_ns(lower.launched_ns, lower.from_ns));
    if (spare_ns_ <= 0 || in_turn_ns == lower.from_ns) return in_turn_ns;
    go_on(in_turn_ns, false);
    const std::int64_t others_ns = std::min(spare_ns_, free_ns(now_ns_, lower.from_ns) - now_ns_);
    spare_ns_ -= others_ns;
    return std::min(lower.from_ns, now_ns_ + others_ns);
  }
  // Advances the model to t_ns. stands: lower work runs all the time until then. Returns for how long the client had work on the device.
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

  static constexpr std::size_t kKept = 512; // more than a client launches between two lower kernels
  std::array<Kernel, kKept> kernels_{};     // not complete at now_ns_, oldest first
  std::size_t begin_ = 0;
  std::size_t count_ = 0;
  std::uint64_t newest_ = 0;    // number of the newest one
  std::int64_t now_ns_ = 0;     // the model's time
  std::int64_t worked_ns_ = 0;  // how much of the oldest is done
  std::int64_t counted_ns_ = 0;
  std::int64_t spare_ns_ = 0;   // longer_ns() of the current run, not used up yet
};

} // namespace fikit::tracking
