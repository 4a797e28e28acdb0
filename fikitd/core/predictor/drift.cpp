#include "drift.hpp"

#include <algorithm>
#include <cmath>

namespace fikit::predictor {
namespace {

constexpr float kWeight = 0.1F;        // of the newest sample
constexpr float kAlarm = 0.9F * static_cast<float>(Drift::kChange); // the mean has gone nine tenths of the way: after 22 samples
constexpr float kShift = 0.03F;        // smaller shifts are not worth following
constexpr float kMaxRatio = 2.5F;      // one interrupted kernel is no drift, however long it took
constexpr float kSurely = 5.0F;        // standard deviations: thousands of kernels are watched at once
constexpr float kLikely = 3.0F;

} // namespace

bool Drift::add(std::int64_t ns, const Statistics& known) {
  if (reference_ns_ <= 0) {
    if (known.count() < kSettled || known.mean_ns() <= 0) return false;
    reference_ns_ = static_cast<float>(known.mean_ns());
    // Of the moving mean, and of the reference itself.
    const float variance = kWeight / (2 - kWeight) + 1 / static_cast<float>(known.count());
    noise_ = static_cast<float>(known.variation()) * std::sqrt(variance);
    ratio_ = 1;
  }
  const float now = std::clamp(static_cast<float>(ns) / reference_ns_, 0.0F, kMaxRatio);
  ratio_ += kWeight * (now - ratio_);
  if (std::abs(ratio_ - 1) < std::max(kAlarm, kSurely * noise_)) return false;
  *this = Drift{};
  return true;
}

double Drift::level_ns() const {
  if (reference_ns_ <= 0 || std::abs(ratio_ - 1) < std::max(kShift, kLikely * noise_)) return -1;
  return static_cast<double>(reference_ns_) * static_cast<double>(ratio_);
}

} // namespace fikit::predictor
