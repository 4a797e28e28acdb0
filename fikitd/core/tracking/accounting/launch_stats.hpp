// Book-keeping of one client's launches and gaps. Decides nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "predictor/prediction.hpp"

namespace fikit::tracking {

// Predicted work launched after a given launch: what is left when "all up to launch n are complete" comes in.
class LaunchLog {
 public:
  // Negative = unknown. spread_ns: by how much it may well take longer.
  void launched(std::int64_t duration_ns, std::int64_t spread_ns);
  void resume_at(std::uint64_t launches); // reports were lost: this many launches so far, nothing known of them
  // Sum of predictions after launch number `sequence` (1-based); negative when one is unknown, or it is too long ago.
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

// When a client's queue was believed to run dry, as it stood when the next launch ended the doubt.
struct Idle {
  std::uint64_t launches = 0; // before it
  std::int64_t since_ns = 0;
};

// The newest of them, for whoever compares them with the device's own record.
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
  void kernels_of_other(std::uint32_t count) { inside_ += count; } // a lower client was given them now
  // The client launches again. actual_ns < 0: its end was not known, or its queue was not dry.
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

// What a client's launches would take alone, by its profile: every kernel, and the gap after it, in its context. Gaps that
// turned out to be boundaries, and gaps where alone there mostly is one, count neither here nor in the span that is compared with
// this: a pause of about kBoundaryNs would else be left out of one of the two alone.
class SoloAccount {
 public:
  explicit SoloAccount(std::size_t slots) : slots_(slots) {}
  void launched(std::uint32_t slot, const predictor::Prediction& predicted);
  bool boundary_follows() const { return boundary_follows_; } // the newest launch, more often than not, when alone
  void gap_ended(bool boundary); // before the next launch, as far as that is known

  struct Work {
    double gpu_ns = 0;
    double gap_ns = 0;
  };
  // Of `launches` launches of a slot, by those that were seen; `otherwise`: the cost of one, for a slot that was not.
  Work of(std::size_t slot, double launches, const Work& otherwise) const;

 private:
  struct Slot {
    double launches = 0;
    Work work;
  };
  std::vector<Slot> slots_;
  std::uint32_t slot_ = 0;
  double gap_ns_ = 0; // expected after the newest launch, not counted yet
  bool boundary_follows_ = false;
};

} // namespace fikit::tracking
