// What is known of one kernel, and what is said of its next run.
#pragma once

#include <cstdint>

#include "statistics.hpp"
#include "types/moments.hpp"

namespace fikit::predictor {

// Idle times from here on end a request or a step: what comes next depends on a user, a network, a data loader, not on
// the kernel before. They are kept apart, or a rare stall would make every gap look long. A bucket begins here.
inline constexpr std::int64_t kBoundaryNs = std::int64_t{1} << 20;

struct Cost {
  Statistics duration; // SK: device time of a run
  Statistics gap;      // SG: idle time of the device after it, until this process's next kernel, below kBoundaryNs
  Statistics boundary; // the same, from kBoundaryNs on
};

struct DurationPrediction {
  std::int64_t duration_ns = kUnknown;      // the best single guess
  std::int64_t duration_mean_ns = kUnknown; // for sums over many runs
  std::int64_t duration_high_ns = kUnknown; // nine of ten take less; of fewer than ten, all did
  std::int64_t duration_tail_ns = kUnknown; // a tenth of its time goes to runs that take so long or longer
  std::int64_t duration_longest_ns = kUnknown; // the longest that was seen
  std::uint32_t durations = 0;              // runs behind these figures
  std::int8_t duration_context = -1;        // by so many kernels before it; -1: unknown
};

struct GapPrediction {
  // Idle time until the next launch, to count on: its median, but not above the mean of gaps inside a request; where the
  // end of a request is more likely, what nine of ten outlast.
  std::int64_t gap_ns = kUnknown;
  std::int64_t gap_low_ns = kUnknown;  // nine of ten gaps inside a request are longer
  std::int64_t gap_mean_ns = kUnknown; // of gaps inside a request
  std::int64_t idle_mean_ns = kUnknown; // of gaps and boundaries below kPauseNs
  double boundary_chance = 0;          // that this is the end of a request
  std::int64_t boundary_low_ns = kUnknown; // idle time until the next request: 10, 50, 90 %
  std::int64_t boundary_median_ns = kUnknown;
  std::int64_t boundary_high_ns = kUnknown;
  std::uint32_t gaps = 0; // gaps and boundaries behind these figures
  std::int8_t gap_context = -1;
};

struct Prediction : DurationPrediction, GapPrediction {};

// level_ns: what it takes lately, if that is known to differ (Drift::level_ns), else negative.
DurationPrediction predict_duration(const Cost& cost, double level_ns);
GapPrediction predict_gap(const Cost& cost);

} // namespace fikit::predictor
