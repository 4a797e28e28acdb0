#include "launch_stats.hpp"

#include <algorithm>
#include <cstdlib>

namespace fikit::tracking {
namespace {

constexpr std::int64_t kMaxSumNs = std::int64_t{1} << 61; // so that sums of reported times cannot overflow

} // namespace

void LaunchLog::launched(std::int64_t duration_ns, std::int64_t spread_ns) {
  if (std::max(total_.known_ns, total_.spread_ns) > kMaxSumNs) resume_at(count_); // a client that has launched 70 years of work
  if (duration_ns < 0) ++total_.unknown;
  else total_.known_ns += std::min(duration_ns, predictor::kMaxNs);
  total_.spread_ns += std::clamp<std::int64_t>(spread_ns, 0, predictor::kMaxNs);
  totals_[++count_ % kKept] = total_;
}

void LaunchLog::resume_at(std::uint64_t launches) {
  *this = LaunchLog{};
  count_ = launches;
  first_ = launches;
}

std::int64_t LaunchLog::remaining_ns(std::uint64_t sequence) const {
  if (sequence >= count_) return 0;
  if (!kept(sequence)) return -1;
  const Total& then = totals_[sequence % kKept];
  return total_.unknown != then.unknown ? -1 : total_.known_ns - then.known_ns;
}

std::vector<Idle> IdleLog::items() const {
  std::vector<Idle> items;
  for (std::uint64_t i = count_ > idle_.size() ? count_ - idle_.size() : 0; i < count_; ++i)
    items.push_back(idle_[i % idle_.size()]);
  return items;
}

std::int64_t LaunchLog::spread_ns(std::uint64_t from, std::uint64_t to) const {
  if (from > to || !kept(from) || !kept(to)) return -1;
  const Total& then = totals_[from % kKept];
  const Total& now = totals_[to % kKept];
  return now.unknown != then.unknown ? -1 : now.spread_ns - then.spread_ns;
}

void GapAccount::ended(std::int64_t predicted_ns, std::int64_t actual_ns, std::int64_t min_gap_ns) {
  others_kernels_ += inside_;
  const bool was_filled = inside_ > 0;
  inside_ = 0;
  if (predicted_ns <= min_gap_ns || actual_ns < 0 || actual_ns > predictor::kMaxNs) return;
  ++offered_;
  if (was_filled) ++filled_;
  predicted_ns_ = std::min(predicted_ns_ + predicted_ns, kMaxSumNs);
  actual_ns_ = std::min(actual_ns_ + actual_ns, kMaxSumNs);
  error_.add(std::abs(predicted_ns - actual_ns));
}

void SpanAlone::launched(std::uint32_t slot, const predictor::Prediction& predicted) {
  gap_ended(boundary_follows_);
  boundary_follows_ = predicted.boundary_chance > 0.5;
  if (predicted.duration_mean_ns < 0 || slot >= slots_.size()) return;
  slot_ = slot;
  gap_ns_ = static_cast<double>(std::max<std::int64_t>(predicted.gap_mean_ns, 0));
  slots_[slot].launches += 1;
  slots_[slot].work.gpu_ns += static_cast<double>(predicted.duration_mean_ns);
}

void SpanAlone::gap_ended(bool boundary) {
  if (!boundary) slots_[slot_].work.gap_ns += gap_ns_;
  gap_ns_ = 0;
}

SpanAlone::Work SpanAlone::of(std::size_t slot, double launches, const Work& otherwise) const {
  const Slot& known = slots_[slot];
  if (known.launches == 0) return {.gpu_ns = launches * otherwise.gpu_ns, .gap_ns = launches * otherwise.gap_ns};
  const double scale = launches / known.launches;
  return {.gpu_ns = scale * known.work.gpu_ns, .gap_ns = scale * known.work.gap_ns};
}

} // namespace fikit::tracking
