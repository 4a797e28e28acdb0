// When lower work pauses so that the audit finds waits without lower work: only where such waits never come by themselves.
#pragma once

#include <cstdint>

namespace fikit::policy::budget {

class ReferenceWindow {
 public:
  static constexpr std::int64_t kOverNs = 100'000'000;   // after a grant: the grant counts as over, whatever its client has said

  bool any() const { return until_ns_ != 0; }
  // Does lower work pause?
  bool open(std::int64_t now_ns) const { return now_ns < until_ns_; }
  // Lower work has been granted nothing for so long that grants without a confirmation count as over.
  bool waited_enough(std::int64_t now_ns) const { return open(now_ns) && now_ns - since_ns_ >= kOverNs; }
  // A wait is over, and the wait before it ended cycle_ns ago. lacks: waits like it have no reference.
  void waited(std::int64_t now_ns, std::int64_t cycle_ns, bool clean, bool lacks) {
    if (begun_ns_ == 0) begun_ns_ = now_ns;
    if (until_ns_ != 0) {
      clean_ += clean;
      if (open(now_ns) && clean_ < kWaits) return;
      spent_ns_ += static_cast<double>((open(now_ns) ? now_ns : until_ns_) - since_ns_);
      until_ns_ = 0;
    }
    const std::int64_t takes_ns = (kWaits + 1) * cycle_ns; // lower work is there during the first
    if (!lacks || static_cast<double>(takes_ns) > kFirstNs + kShare * static_cast<double>(now_ns - begun_ns_) - spent_ns_) return;
    since_ns_ = now_ns, until_ns_ = now_ns + takes_ns + kOverNs, clean_ = 0;
  }

 private:
  static constexpr int kWaits = 3;                       // clean waits in a window
  static constexpr double kFirstNs = 20e6;               // of all windows, beyond kShare
  static constexpr double kShare = 0.02;                 // of the client's time

  std::int64_t begun_ns_ = 0; // the end of the first wait
  double spent_ns_ = 0; // in windows that are over
  std::int64_t since_ns_ = 0;
  std::int64_t until_ns_ = 0; // 0: there is no window
  int clean_ = 0;
};

} // namespace fikit::policy::budget
