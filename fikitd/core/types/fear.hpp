// Work that once took much longer than expected may do so again: that is feared for a while, and for longer each time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fikit {

class Fear {
 public:
  // Work took ns, which nobody had expected.
  void took(std::int64_t ns, std::int64_t now_ns) {
    const bool again = remembered(now_ns);
    lasts_ns_ = again ? std::min(2 * lasts_ns_, kLongestNs) : kShortestNs;
    longest_ns_ = std::max(again ? longest_ns_ : 0, ns);
    until_ns_ = now_ns + lasts_ns_;
  }
  void forget() { *this = {}; }
  // What the next piece of work is feared to take; 0: nothing is feared.
  std::int64_t feared_ns(std::int64_t now_ns) const { return now_ns < until_ns_ ? longest_ns_ : 0; }
  // The longest that was seen, for those who can bear no single one; 0: that is long ago.
  std::int64_t longest_ns(std::int64_t now_ns) const { return remembered(now_ns) ? longest_ns_ : 0; }

 private:
  // A mishap costs little harvest; what happens once in 200 launches comes back soon.
  static constexpr std::int64_t kShortestNs = 2'000'000'000;
  static constexpr std::int64_t kLongestNs = 64'000'000'000;
  bool remembered(std::int64_t now_ns) const { return longest_ns_ > 0 && now_ns < until_ns_ + kLongestNs; }

  std::int64_t longest_ns_ = 0;
  std::int64_t until_ns_ = 0;
  std::int64_t lasts_ns_ = 0;
};

} // namespace fikit
