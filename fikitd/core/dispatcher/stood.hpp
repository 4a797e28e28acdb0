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

class Stood {
 public:
  // A launch at t_ns; what was launched before it was reckoned to be complete at finish_ns.
  void launched(std::int64_t t_ns, std::int64_t finish_ns) {
    if (finish_ns >= t_ns && count_ > 0) return;
    if (count_ > 0) busy_[(count_ - 1) % kKept].until_ns = finish_ns;
    busy_[count_++ % kKept] = {.from_ns = t_ns, .until_ns = 0};
  }
  // This was counted already.
  void counted(std::int64_t until_ns) { counted_ns_ = std::max(counted_ns_, until_ns); }
  // Lower work ran. What the client has launched is reckoned to be complete at finish_ns. Of the time that was not counted
  // before: in how much of it had the client work there?
  std::int64_t beside(const Ran& lower, std::int64_t finish_ns) {
    const std::int64_t from_ns = std::max(lower.from_ns, counted_ns_);
    std::int64_t together_ns = 0;
    for (std::size_t back = 1; back <= std::min(count_, kKept); ++back) {
      const Ran& busy = busy_[(count_ - back) % kKept];
      const std::int64_t until_ns = std::min(lower.until_ns, back == 1 ? finish_ns : busy.until_ns);
      together_ns += std::max<std::int64_t>(0, until_ns - std::max(from_ns, busy.from_ns));
      if (busy.from_ns <= from_ns) break;
    }
    counted(lower.until_ns);
    return together_ns;
  }

 private:
  static constexpr std::size_t kKept = 64; // of its busy times, the newest: more than there are between two looks
  std::array<Ran, kKept> busy_{};
  std::size_t count_ = 0;
  std::int64_t counted_ns_ = 0;
};

} // namespace fikit::dispatcher
