#include "prediction.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace fikit::predictor {
namespace {

constexpr double kHigh = 0.9;
constexpr double kLow = 0.1;

std::uint32_t cut(std::uint64_t count) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(count, std::numeric_limits<std::uint32_t>::max()));
}

std::int64_t whole(double ns) { return std::llround(ns); }

// Sum and number of boundaries below kPauseNs. Where there are longer ones too, those below are known by their buckets.
std::pair<double, double> short_boundaries(const Statistics& boundary) {
  double sum_ns = 0;
  double number = 0;
  bool all = true;
  for (const auto& [bucket, count] : boundary.histogram()) {
    all = bucket_low(bucket) < kPauseNs;
    if (!all) break;
    number += static_cast<double>(count);
    sum_ns += static_cast<double>(count) * static_cast<double>(bucket_low(bucket) + bucket_low(bucket + 1)) / 2;
  }
  if (!all) return {sum_ns, number};
  return {static_cast<double>(boundary.count()) * boundary.mean_ns(), static_cast<double>(boundary.count())};
}

} // namespace

DurationPrediction predict_duration(const Cost& cost, double level_ns) {
  const Statistics& known = cost.duration;
  if (known.count() == 0) return {};
  const double typical_ns = known.typical_ns();
  const double scale = level_ns >= 0 && typical_ns > 0 ? level_ns / typical_ns : 1;
  return {.duration_ns = whole(scale * typical_ns),
          .duration_mean_ns = whole(known.mean_ns()),
          .duration_high_ns = whole(scale * known.quantile_ns(kHigh)),
          .duration_tail_ns = whole(scale * known.tail_ns()),
          .duration_longest_ns = whole(scale * known.longest_ns()),
          .durations = cut(known.count())};
}

GapPrediction predict_gap(const Cost& cost) {
  const auto inside = static_cast<double>(cost.gap.count());
  const auto ends = static_cast<double>(cost.boundary.count());
  if (inside + ends == 0) return {};
  GapPrediction said{.boundary_chance = ends / (inside + ends), .gaps = cut(cost.gap.count() + cost.boundary.count())};
  if (ends > 0) {
    said.boundary_low_ns = whole(cost.boundary.quantile_ns(kLow));
    said.boundary_median_ns = whole(cost.boundary.quantile_ns(0.5));
    said.boundary_high_ns = whole(cost.boundary.quantile_ns(kHigh));
  }
  if (inside > 0) {
    said.gap_low_ns = whole(cost.gap.quantile_ns(kLow));
    said.gap_mean_ns = whole(cost.gap.mean_ns());
  }
  const auto [short_ns, short_ends] = short_boundaries(cost.boundary);
  if (inside + short_ends > 0) said.idle_mean_ns = whole((inside * cost.gap.mean_ns() + short_ns) / (inside + short_ends));
  const double half = (inside + ends) / 2; // boundaries are the longer ones
  if (half > inside) said.gap_ns = said.boundary_low_ns;
  else said.gap_ns = whole(std::min(cost.gap.mean_ns(), cost.gap.quantile_ns(half / inside)));
  return said;
}

} // namespace fikit::predictor
