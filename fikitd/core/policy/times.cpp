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
  const auto from = static_cast<double>(std::max<std::int64_t>(from_ns, 0));
  const auto until = static_cast<double>(until_ns);
  if (until <= from) return 0;
  const auto last = static_cast<double>(ns.back());
  // As dense where the tail begins as between the last two.
  const double tail_ns = std::max((last - static_cast<double>(ns[kCount - 2])) / std::log(3.0), 1.0);
  if (from >= last) return exponential_before(until - from, std::max(tail_ns, kSurprise * (from - last)));

  // The integral of the distribution function from `from` to `until`, step by step.
  double x = std::max(0.0, 1.5 * static_cast<double>(ns[0]) - 0.5 * static_cast<double>(ns[1]));
  double share = 0;
  double at_from = 0;
  double integral = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto next_x = static_cast<double>(ns[i]);
    const double next_share = share + (i == 0 ? kTail : kStep);
    const double width = next_x - x;
    const auto at = [&](double t) { return width > 0 ? share + (next_share - share) * (t - x) / width : next_share; };
    const double a = std::clamp(from, x, next_x);
    const double b = std::clamp(until, x, next_x);
    if (from >= x) at_from = at(a);
    if (b > a) integral += (b - a) * (at(a) + at(b)) / 2;
    x = next_x;
    share = next_share;
  }
  if (until > last) integral += (until - last) + kTail * tail_ns * std::expm1(-(until - last) / tail_ns);
  return std::max(0.0, (integral - at_from * (until - from)) / (1 - at_from));
}

} // namespace fikit::policy
