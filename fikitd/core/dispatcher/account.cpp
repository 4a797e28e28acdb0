#include "account.hpp"

#include <algorithm>
#include <cstdlib>

namespace fikit::dispatcher {
namespace {

constexpr std::int64_t kMaxSumNs = std::int64_t{1} << 61; // sums of what clients say stop here

} // namespace

void LaunchLog::launched(std::int64_t duration_ns) {
  if (total_.known_ns > kMaxSumNs) resume_at(count_); // a client that has launched 70 years of work
  if (duration_ns < 0) ++total_.unknown;
  else total_.known_ns += std::min(duration_ns, predictor::kMaxNs);
  totals_[++count_ % kKept] = total_;
}

void LaunchLog::resume_at(std::uint64_t launches) {
  *this = LaunchLog{};
  count_ = launches;
  first_ = launches;
}

std::int64_t LaunchLog::remaining_ns(std::uint64_t sequence) const {
  if (sequence >= count_) return 0;
  if (count_ - sequence >= kKept || sequence < first_) return -1;
  const Total& then = totals_[sequence % kKept];
  return total_.unknown != then.unknown ? -1 : total_.known_ns - then.known_ns;
}

void GapAccount::ended(std::int64_t predicted_ns, std::int64_t actual_ns, std::int64_t epsilon_ns) {
  others_kernels_ += inside_;
  const bool was_filled = inside_ > 0;
  inside_ = 0;
  if (predicted_ns <= epsilon_ns || actual_ns < 0 || actual_ns > predictor::kMaxNs) return;
  ++offered_;
  if (was_filled) ++filled_;
  predicted_ns_ = std::min(predicted_ns_ + predicted_ns, kMaxSumNs);
  actual_ns_ = std::min(actual_ns_ + actual_ns, kMaxSumNs);
  error_.add(std::abs(predicted_ns - actual_ns));
}

} // namespace fikit::dispatcher
