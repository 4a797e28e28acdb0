#include "residual_time.hpp"

#include <algorithm>
#include <cmath>

namespace fikit::policy {
namespace {

constexpr double kStep = 1.0 / TimeQuantiles::kCount;
constexpr double kTail = kStep / 2; // before the first, and beyond the last
constexpr double kSurprise = 1;     // what has taken so much longer than ever takes so many times that again

// Of what has come by the beginning of each step, and by the end of the last.
constexpr auto kShares = [] {
  std::array<double, TimeQuantiles::kCount + 1> shares{};
  for (std::size_t step = 0; step < TimeQuantiles::kCount; ++step) shares[step + 1] = kTail + static_cast<double>(step) * kStep;
  return shares;
}();

// How many of the steps but the first begin before this. Without a branch, which nobody could foresee.
std::size_t begun(const std::array<double, TimeQuantiles::kCount + 1>& bounds, double t) {
  std::size_t steps = 0;
  for (std::size_t step = 1; step < TimeQuantiles::kCount; ++step) steps += static_cast<std::size_t>(bounds[step] < t);
  return steps;
}

} // namespace

double ResidualTime::share_at(std::size_t step, double t) const { // strictly within, or at its end
  const double begin = bounds_[step];
  return kShares[step] + (kShares[step + 1] - kShares[step]) * (t - begin) / (bounds_[step + 1] - begin);
}

void ResidualTime::begin(const TimeQuantiles& times, std::int64_t from_ns) {
  const auto& ns = times.ns;
  const auto last = static_cast<double>(ns.back());
  from_ = static_cast<double>(std::max<std::int64_t>(from_ns, 0));
  // As dense where the tail begins as between the last two.
  tail_ns_ = std::max((last - static_cast<double>(ns[TimeQuantiles::kCount - 2])) / std::log(3.0), 1.0);
  late_ = from_ >= last;
  if (late_) {
    tail_ns_ = std::max(tail_ns_, kSurprise * (from_ - last));
    return;
  }
  for (std::size_t i = 0; i < TimeQuantiles::kCount; ++i) bounds_[i + 1] = static_cast<double>(ns[i]);
  bounds_[0] = std::max(0.0, 1.5 * bounds_[1] - 0.5 * bounds_[2]);
  std::size_t step = 0; // in which from_ lies
  while (from_ >= bounds_[step + 1]) ++step;
  share_at_from_ = from_ > bounds_[step] ? share_at(step, from_) : kShares[step];
  // The integral of the distribution function from `from_` on, step by step.
  all_ = 0;
  double begin = std::max(from_, bounds_[step]);
  double share = share_at_from_;
  for (; step < TimeQuantiles::kCount; ++step) {
    const double end = bounds_[step + 1];
    const double next_share = kShares[step + 1];
    before_[step] = all_;
    all_ += (end - begin) * (share + next_share) / 2;
    begin = end;
    share = next_share;
  }
}

ResidualTime::At ResidualTime::at(std::int64_t until_ns) const {
  const auto until = static_cast<double>(until_ns);
  if (until <= from_) return {};
  if (late_) { // an exponential time is left
    const double less = std::expm1(-(until - from_) / tail_ns_);
    return {.mean_ns = (until - from_) + tail_ns_ * less, .share = -less};
  }
  double integral = all_;
  double share = 0; // has come by then
  if (const double last = bounds_.back(); until > last) {
    const double less = std::expm1(-(until - last) / tail_ns_);
    integral += (until - last) + kTail * tail_ns_ * less;
    share = 1 - kTail * (1 + less);
  } else {
    const std::size_t step = begun(bounds_, until); // in which `until` lies
    const double begin = std::max(from_, bounds_[step]);
    const double share_at_begin = from_ > bounds_[step] ? share_at_from_ : kShares[step];
    share = until > begin ? share_at(step, until) : share_at_begin;
    integral = before_[step];
    if (until > begin) integral += (until - begin) * (share_at_begin + share) / 2;
  }
  const double left = 1 - share_at_from_;
  return {.mean_ns = std::max(0.0, (integral - share_at_from_ * (until - from_)) / left), .share = (share - share_at_from_) / left};
}

} // namespace fikit::policy
