// Do a client and lower work get on with each other as it is? How much of the client's time one of them waits for the other.
//
// A forecast takes all that stands in line for a delay. Many devices serve two clients in turn, whatever stands in line; then,
// below a client whose kernels are far enough apart, it is none. Where hardly anything is refused, and what goes costs hardly
// anything, what forecasts still refuse is not worth refusing: all of it would cost the client about as much as it waited.
#pragma once

#include <cstdint>

namespace fikit::policy {

class Ease {
 public:
  // Lower work stood at the gate for the client's sake.
  void held(double ns) { held_ns_ += ns; }
  // The client waited for lower work.
  void late(double ns) { late_ns_ += ns; }
  // A segment beside lower work is over.
  void worked(double ns, double remembered_ns) {
    active_ns_ += ns;
    if (active_ns_ < remembered_ns) return;
    active_ns_ /= 2;
    held_ns_ /= 2;
    late_ns_ /= 2;
  }
  // Of its time in segments lately, with so much of one that is not over: less than this share was lost in all.
  bool loses_less(double share, std::int64_t more_ns, double enough_ns) const {
    const double active_ns = active_ns_ + static_cast<double>(more_ns);
    return active_ns >= enough_ns && held_ns_ + late_ns_ <= share * active_ns;
  }
  // Lower work was held for more than this share.
  bool holds_more(double share, std::int64_t more_ns, double enough_ns) const {
    const double active_ns = active_ns_ + static_cast<double>(more_ns);
    return active_ns >= enough_ns && held_ns_ > share * active_ns;
  }

 private:
  double active_ns_ = 0;
  double held_ns_ = 0;
  double late_ns_ = 0;
};

} // namespace fikit::policy
