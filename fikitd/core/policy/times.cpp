#include "times.hpp"

#include <algorithm>
#include <cmath>

namespace fikit::policy {
namespace {

constexpr double kStep = 1.0 / Times::kCount;
constexpr double kTail = kStep / 2; // before the first, and beyond the last
constexpr double kSurprise = 1;     // what has taken so much longer than ever takes so many times that again

// Of what has come by the beginning of each step, and by the end of the last.
constexpr auto kShares = [] {
  std::array<double, Times::kCount + 1> shares{};
  for (std::size_t step = 0; step < Times::kCount; ++step) shares[step + 1] = kTail + static_cast<double>(step) * kStep;
  return shares;
}();

// The mean of max(0, y - X) for an exponential X.
double exponential_before(double y, double mean) { return y <= 0 ? 0 : y + mean * std::expm1(-y / mean); }

} // namespace

double Remaining::share_at(std::size_t step, double t) const { // strictly within, or at its end
  const double begin = bounds_[step];
  return kShares[step] + (kShares[step + 1] - kShares[step]) * (t - begin) / (bounds_[step + 1] - begin);
}

double Times::mean_before(std::int64_t from_ns, std::int64_t until_ns) const {
  return Remaining(*this, from_ns).mean_before(until_ns);
}

void Remaining::begin(const Times& times, std::int64_t from_ns) {
  const auto& ns = times.ns;
  const auto last = static_cast<double>(ns.back());
  from_ = static_cast<double>(std::max<std::int64_t>(from_ns, 0));
  // As dense where the tail begins as between the last two.
  tail_ns_ = std::max((last - static_cast<double>(ns[Times::kCount - 2])) / std::log(3.0), 1.0);
  late_ = from_ >= last;
  if (late_) {
    tail_ns_ = std::max(tail_ns_, kSurprise * (from_ - last));
    return;
  }
  std::size_t step = 0; // in which from_ lies
  while (from_ >= static_cast<double>(ns[step])) ++step;
  bounds_[step] = step > 0 ? static_cast<double>(ns[step - 1])
                           : std::max(0.0, 1.5 * static_cast<double>(ns[0]) - 0.5 * static_cast<double>(ns[1]));
  bounds_[step + 1] = static_cast<double>(ns[step]);
  share_at_from_ = from_ > bounds_[step] ? share_at(step, from_) : kShares[step];
  // The integral of the distribution function from `from_` on, step by step.
  all_ = 0;
  double begin = std::max(from_, bounds_[step]);
  double share = share_at_from_;
  for (; step < Times::kCount; ++step) {
    const auto end = static_cast<double>(ns[step]);
    const double next_share = kShares[step + 1];
    bounds_[step + 1] = end;
    before_[step] = all_;
    all_ += (end - begin) * (share + next_share) / 2;
    begin = end;
    share = next_share;
  }
}

double Remaining::mean_before(std::int64_t until_ns) const {
  const auto until = static_cast<double>(until_ns);
  if (until <= from_) return 0;
  if (late_) return exponential_before(until - from_, tail_ns_);
  double integral = all_;
  if (const double last = bounds_.back(); until > last) {
    integral += (until - last) + kTail * tail_ns_ * std::expm1(-(until - last) / tail_ns_);
  } else {
    std::size_t step = Times::kCount - 1; // in which `until` lies
    while (step > 0 && bounds_[step] >= until) --step;
    integral = before_[step];
    const double begin = std::max(from_, bounds_[step]);
    const double share = from_ > bounds_[step] ? share_at_from_ : kShares[step];
    if (until > begin) integral += (until - begin) * (share + share_at(step, until)) / 2;
  }
  return std::max(0.0, (integral - share_at_from_ * (until - from_)) / (1 - share_at_from_));
}

} // namespace fikit::policy
