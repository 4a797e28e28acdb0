// A client's figures for the report.
#include <algorithm>

#include "client_tracker.hpp"

namespace fikit::tracking {

Stats ClientTracker::stats(const Counters& counters, std::span<const std::uint64_t> slot_launches, std::int64_t now_ns) const {
  Stats stats;
  stats.kernels = counters.launches;
  stats.unfinished = counters.launches - std::min(complete_, counters.launches);
  if (counters.first_launch_ns > 0) {
    const std::int64_t begin_ns = counters.first_launch_ns + paused_ns_;
    stats.span_ns = std::max<std::int64_t>(counters.last_drained_ns - begin_ns, 0);
    stats.under_way_ns = std::max(stats.unfinished > 0 ? now_ns - begin_ns : 0, stats.span_ns);
  }
  stats.wait_count = counters.wait_count;
  stats.wait_total_ns = counters.wait_total_ns;
  stats.wait_p99_ns = counters.wait_p99_ns;
  stats.gaps_offered = gaps_.offered();
  stats.gaps_filled = gaps_.filled();
  stats.others_kernels = gaps_.others_kernels();
  stats.predicted_gap_ns = gaps_.predicted_ns();
  stats.actual_gap_ns = gaps_.actual_ns();
  stats.gap_error_p50_ns = gaps_.error_quantile_ns(0.5);
  stats.gap_error_p90_ns = gaps_.error_quantile_ns(0.9);
  stats.expired = counters.expired;
  stats.drifted = profile_.alone.drift_alarms();
  stats.held = held_now(now_ns);
  stats.spent = spent(now_ns);

  add_work(stats, slot_launches);
  return stats;
}

// Launches times the cost of each, if the costs of at least 99 % of the launches are known. Times sampled in this run tell how long the
// client used the GPU, not what it would take alone, so span_alone_ns leaves them out.
void ClientTracker::add_work(Stats& stats, std::span<const std::uint64_t> launches) const {
  double all = 0;
  double known = 0;
  double sampled = 0;
  double sampled_ns = 0;
  SpanAlone::Work sum;
  for (std::size_t slot = 0; slot < launches.size(); ++slot) {
    const auto count = static_cast<double>(launches[slot]);
    all += count;
    const predictor::Cost* cost = measure_ ? measured_.alone.cost(identities_[slot]) : profiled_cost(identities_[slot]);
    if (launches[slot] > 0 && identities_[slot] != 0) {
      ++stats.distinct;
      if (profiled_cost(identities_[slot]) != nullptr)
        ++(profile_.borrowed.contains(identities_[slot]) ? stats.distinct_borrowed : stats.distinct_profiled);
    }
    if (cost == nullptr || cost->duration.count() == 0) {
      const predictor::Cost* seen = this->cost(identities_[slot]);
      if (seen == nullptr) {
        stats.untimed += launches[slot];
        continue;
      }
      for (const Timed* timed : {&profile_, &measured_}) {
        if (timed->beside.cost(identities_[slot]) == seen) stats.beside += launches[slot];
        if (timed->doubtful.cost(identities_[slot]) == seen) stats.doubtful += launches[slot];
      }
      sampled += count;
      sampled_ns += count * seen->duration.mean_ns();
      continue;
    }
    known += count;
    const double gaps = static_cast<double>(cost->gap.count());
    const double share = gaps / std::max(gaps + static_cast<double>(cost->boundary.count()), 1.0);
    const SpanAlone::Work one{.gpu_ns = cost->duration.mean_ns(), .gap_ns = share * cost->gap.mean_ns()};
    // A measured run's costs need no contexts.
    const SpanAlone::Work work = measure_ ? SpanAlone::Work{count * one.gpu_ns, count * one.gap_ns}
                                          : span_alone_.of(slot, count, one);
    sum.gpu_ns += work.gpu_ns;
    sum.gap_ns += work.gap_ns;
  }
  constexpr double kEnough = 0.99;
  if (all == 0 || known + sampled < kEnough * all) return;
  stats.gpu_time_ns = sum.gpu_ns + sampled_ns;
  if (known < kEnough * all) return;
  // Alone, the job still is all its processes on one device.
  const double together_ns = measure_ || siblings_ == nullptr ? 0 : together_.end_ns - together_.begin_ns;
  stats.span_alone_ns = std::max(sum.gpu_ns + sum.gap_ns, together_ns);
}

} // namespace fikit::tracking
