// The clock of a client whose host is stopped from time to time: it stands while the host does. What is learnt of the client's rhythm, and
// what is reckoned by it, goes by this clock.
#pragma once

#include <algorithm>
#include <cstdint>

#include "types/moments.hpp"

namespace fikit::tracking {

class OwnClock {
 public:
  // The host stood still then; later than any time before.
  void stood(std::int64_t since_ns, std::int64_t until_ns) {
    since_ns_ = since_ns, until_ns_ = std::max(until_ns, since_ns);
    before_ns_ = total_ns_;
    total_ns_ += until_ns_ - since_ns_;
  }
  std::int64_t own_ns(std::int64_t t_ns) const { // kLongAgo stays what it is
    if (t_ns == kLongAgo || total_ns_ == 0) return t_ns;
    return t_ns >= until_ns_ ? t_ns - total_ns_ : std::min(t_ns, since_ns_) - before_ns_;
  }
  std::int64_t real_ns(std::int64_t own_ns) const { // of a moment since the host last stood still
    return own_ns == kLongAgo ? own_ns : own_ns + total_ns_;
  }

 private:
  std::int64_t since_ns_ = 0;
  std::int64_t until_ns_ = 0;
  std::int64_t before_ns_ = 0; // total_ns_ before that
  std::int64_t total_ns_ = 0;
};

} // namespace fikit::tracking
