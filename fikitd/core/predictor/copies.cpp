#include "copies.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "statistics.hpp"

namespace fikit::predictor {
namespace {

constexpr unsigned kSizeBits = 8;
constexpr std::uint32_t kNewest = (1U << kSizeBits) - 1;
constexpr std::uint32_t kThree = (1U << 3 * kSizeBits) - 1;
constexpr double kUsualNsPerByte = 1.0 / 12; // a bus of 16 lanes, third generation: until one was seen
constexpr double kFastestNsPerByte = 1.0 / 1024;
constexpr double kSlowestNsPerByte = 16;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 44;
constexpr std::uint64_t kTellingBytes = 65536; // of smaller ones the beginning is what takes long
constexpr double kRateUnit = 1e6;              // whole numbers are kept

} // namespace

void Copies::learn(std::uint32_t place, std::int64_t idle_ns) {
  const auto it = until_next_.find(place);
  if (it != until_next_.end()) it->second.add(idle_ns);
  else if (until_next_.size() < kMaxPlaces) until_next_[place].add(idle_ns);
}

TimeQuantiles Copies::copied(std::int64_t t_ns, std::uint64_t bytes) {
  const std::int64_t idle_ns = std::clamp<std::int64_t>(t_ns - last_ns_, 0, kMaxNs);
  if (last_three_ != 0)
    for (const std::uint32_t place : {last_three_, last_three_ & kNewest}) learn(place, idle_ns);
  last_three_ = (last_three_ << kSizeBits | static_cast<std::uint32_t>(std::bit_width(bytes | 1))) & kThree;
  last_ns_ = t_ns;
  for (const std::uint32_t place : {last_three_, last_three_ & kNewest}) {
    const auto it = until_next_.find(place);
    if (it != until_next_.end()) return it->second.times();
  }
  return {};
}

void Copies::took(std::uint64_t bytes, std::int64_t ns) {
  if (bytes < kTellingBytes || ns <= 0) return;
  const double rate = static_cast<double>(ns) / static_cast<double>(std::min(bytes, kMostBytes));
  rates_.add(std::llround(kRateUnit * std::clamp(rate, kFastestNsPerByte, kSlowestNsPerByte)));
}

// What was slower had waited for something.
double Copies::ns_per_byte() const {
  return rates_.known() ? static_cast<double>(rates_.times().low_ns()) / kRateUnit : kUsualNsPerByte;
}

std::int64_t Copies::expected_ns(std::uint64_t bytes) const {
  return std::min(std::llround(static_cast<double>(std::min(bytes, kMostBytes)) * ns_per_byte()), static_cast<long long>(kMaxNs));
}

} // namespace fikit::predictor
