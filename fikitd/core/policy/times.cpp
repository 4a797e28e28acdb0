#include "times.hpp"

#include <algorithm>
#include <cmath>

namespace fikit::policy {
namespace {

constexpr double kStep = 1.0 / Times::kCount;
constexpr double kTail = kStep / 2; // before the first, and beyond the last
constexpr double kSurprise = 0.25;  // what has taken so much longer than ever takes this share of it again

// The mean of max(0, y - X) for an exponential X.
double exponential_before(double y, double mean) { return y <= 0 ? 0 : y + mean * std::expm1(-y / mean); }

} // namespace

double Times::mean_before(std::int64_t from_ns, std::int64_t until_ns) const {
  return Remaining(*this, from_ns).mean_before(until_ns);
}

double Remaining::Step::share_at(double t) const { // strictly within, or at its end
  return share + (next_share - share) * (t - begin) / (end - begin);
}

Remaining::Remaining(const Times& times, std::int64_t from_ns)
    : from_(static_cast<double>(std::max<std::int64_t>(from_ns, 0))) {
  const auto& ns = times.ns;
  const auto last = static_cast<double>(ns.back());
  // As dense where the tail begins as between the last two.
  tail_ns_ = std::max((last - static_cast<double>(ns[Times::kCount - 2])) / std::log(3.0), 1.0);
  late_ = from_ >= last;
  if (late_) {
    tail_ns_ = std::max(tail_ns_, kSurprise * (from_ - last));
    return;
  }
  // The integral of the distribution function from `from_` on, step by step.
  double begin = std::max(0.0, 1.5 * static_cast<double>(ns[0]) - 0.5 * static_cast<double>(ns[1]));
  double share = 0;
  for (std::size_t i = 0; i < Times::kCount; ++i) {
    Step& step = steps_[i];
    step = {.begin = begin, .end = static_cast<double>(ns[i]), .share = share, .next_share = share + (i == 0 ? kTail : kStep),
            .from = 0, .share_at_from = 0, .before = all_};
    step.from = std::clamp(from_, step.begin, step.end);
    step.share_at_from = from_ >= step.end ? step.next_share : from_ <= step.begin ? share : step.share_at(from_);
    if (from_ >= step.begin) at_from_ = step.share_at_from;
    all_ += (step.end - step.from) * (step.share_at_from + step.next_share) / 2;
    begin = step.end;
    share = step.next_share;
  }
}

double Remaining::mean_before(std::int64_t until_ns) const {
  const auto until = static_cast<double>(until_ns);
  if (until <= from_) return 0;
  if (late_) return exponential_before(until - from_, tail_ns_);
  double integral = all_;
  if (const double last = steps_.back().end; until > last) {
    integral += (until - last) + kTail * tail_ns_ * std::expm1(-(until - last) / tail_ns_);
  } else {
    std::size_t i = 0;
    while (until > steps_[i].end) ++i;
    const Step& step = steps_[i];
    integral = step.before;
    if (until > step.from) integral += (until - step.from) * (step.share_at_from + step.share_at(until)) / 2;
  }
  return std::max(0.0, (integral - at_from_ * (until - from_)) / (1 - at_from_));
}

} // namespace fikit::policy
