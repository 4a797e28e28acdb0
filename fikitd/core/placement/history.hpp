// How long a job will still run, from how long earlier runs of the same name took.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace fikit::placement {

inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// Run times of one key (the user and the name of the job), seconds alone on a GPU.
class History {
 public:
  static constexpr std::size_t kMost = 64; // runs that are kept: the newest

  History() = default;
  // Oldest first. Raises std::invalid_argument for a run time that is not finite or not positive.
  explicit History(std::span<const double> runs_s);

  void add(double run_s); // raises as the constructor does
  std::size_t runs() const { return ascending_.size(); }

  // E[T - t | T > t] over the runs that were longer than t = `run_s`, seconds: the mean of what they had left. A job that has
  // outlived all of them is expected to take as long again. Never more than what `limit_s` leaves. Without any run: kNoLimit or
  // what the limit leaves.
  double expected_rest_s(double run_s, double limit_s = kNoLimit) const;
  double expected_s(double limit_s = kNoLimit) const { return expected_rest_s(0, limit_s); }
  // The run time beyond `run_s` at which expected_rest_s() jumps: the next longer run of the history; kNoLimit: none.
  double next_jump_s(double run_s) const;
  double median_s() const; // of no run: 0

 private:
  void sum();

  std::vector<double> by_age_;    // oldest first
  std::vector<double> ascending_; // the same
  std::vector<double> from_;      // sums of ascending_ from the i-th on
};

} // namespace fikit::placement
