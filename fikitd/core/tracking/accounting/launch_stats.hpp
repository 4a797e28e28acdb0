// Statistics of one client's launches and gaps. Decides nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "predictor/prediction.hpp"

namespace fikit::tracking {

// Predicted work after a given launch: what is left on the device when launch n is known to be complete.
class LaunchLog {
 public:
  // duration_ns: negative = unknown. spread_ns: from the prediction to its 90 % quantile.
  void launched(std::int64_t duration_ns, std::int64_t spread_ns);
  void resume_at(std::uint64_t launches); // reports were lost: nothing is known of the launches so far
  // Sum of predictions after launch number `sequence` (1-based); negative when one of them is unknown, or that launch is no longer kept.
  std::int64_t remaining_ns(std::uint64_t sequence) const;
  // By how much the launches after number `from` up to number `to` may take longer than predicted; negative when unknown.
  std::int64_t spread_ns(std::uint64_t from, std::uint64_t to) const;

 private:
  static constexpr std::size_t kKept = 1024;
  struct Total {
    std::int64_t known_ns = 0;
    std::int64_t spread_ns = 0;
    std::uint64_t unknown = 0;
  };
  bool kept(std::uint64_t sequence) const { return sequence <= count_ && count_ - sequence < kKept && sequence >= first_; }
  Total total_;
  std::uint64_t count_ = 0;
  std::uint64_t first_ = 0;
  std::array<Total, kKept> totals_{}; // totals_[n % kKept] = total up to and including launch n
};

// When a client's queue was reckoned to have run dry, as of the moment of its next launch.
struct Idle {
  std::uint64_t launches = 0; // before it
  std::int64_t since_ns = 0;
};

// The newest of these moments: tests and benches compare them with the emulated device's trace.
class IdleLog {
 public:
  void add(const Idle& idle) { idle_[count_++ % idle_.size()] = idle; }
  std::vector<Idle> items() const; // oldest first

 private:
  std::array<Idle, 4096> idle_{};
  std::uint64_t count_ = 0;
};

// Gaps of a client: predicted after a launch, ended by its next one.
class GapAccount {
 public:
  void kernels_of_other(std::uint32_t count) { inside_ += count; } // granted to lower clients in the current gap
  // The client launches again. actual_ns < 0: it is not known when its queue ran dry, or it had not.
  void ended(std::int64_t predicted_ns, std::int64_t actual_ns, std::int64_t min_gap_ns);

  std::uint64_t offered() const { return offered_; }
  std::uint64_t filled() const { return filled_; }
  std::uint64_t others_kernels() const { return others_kernels_ + inside_; }
  std::int64_t predicted_ns() const { return predicted_ns_; } // sums over offered gaps
  std::int64_t actual_ns() const { return actual_ns_; }
  double error_quantile_ns(double q) const { return error_.quantile_ns(q); }

 private:
  std::uint64_t inside_ = 0;
  std::uint64_t offered_ = 0;
  std::uint64_t filled_ = 0;
  std::uint64_t others_kernels_ = 0;
  std::int64_t predicted_ns_ = 0;
  std::int64_t actual_ns_ = 0;
  predictor::Statistics error_; // |predicted - actual|
};

// What span_ns would be alone, by the profile: every kernel in its context, and the gap after it. A gap that turned out to be a boundary,
// or mostly is one in the profile, counts neither here nor in span_ns: a pause of about kBoundaryNs must not be left out of only one of
// the two.
class SpanAlone {
 public:
  explicit SpanAlone(std::size_t slots) : slots_(slots) {}
  void launched(std::uint32_t slot, const predictor::Prediction& predicted);
  bool boundary_follows() const { return boundary_follows_; } // in the profile, after the newest launch, more often than a gap
  void gap_ended(bool boundary); // the gap before the next launch has ended

  struct Work {
    double gpu_ns = 0;
    double gap_ns = 0;
  };
  // The work of `launches` launches of a slot, from the mean of those that were reported; `otherwise`: of one launch, if none was.
  Work of(std::size_t slot, double launches, const Work& otherwise) const;

 private:
  struct Slot {
    double launches = 0;
    Work work;
  };
  std::vector<Slot> slots_;
  std::uint32_t slot_ = 0;
  double gap_ns_ = 0; // the profile's gap after the newest launch, counted when it ends
  bool boundary_follows_ = false;
};

} // namespace fikit::tracking
