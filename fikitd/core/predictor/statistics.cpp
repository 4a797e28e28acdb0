#include "statistics.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

namespace fikit::predictor {
namespace {

constexpr int kSubBits = 3; // eight buckets per doubling
constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 53; // counts stay exact as doubles and in JSON

} // namespace

int bucket_of(std::int64_t ns) {
  const auto value = static_cast<std::uint64_t>(std::clamp<std::int64_t>(ns, 0, kMaxNs));
  if (value < (1U << kSubBits)) return static_cast<int>(value);
  const int shift = std::bit_width(value) - 1 - kSubBits;
  return (shift << kSubBits) + static_cast<int>(value >> shift);
}

std::int64_t bucket_low(int bucket) {
  const int b = std::clamp(bucket, 0, kBuckets);
  if (b < (2 << kSubBits)) return b;
  const int shift = (b >> kSubBits) - 1;
  return std::int64_t{(1 << kSubBits) + (b & ((1 << kSubBits) - 1))} << shift;
}

double quantile(std::span<const std::pair<int, std::uint64_t>> histogram, double q) {
  double total = 0;
  for (const auto& [bucket, count] : histogram) total += static_cast<double>(count);
  if (total == 0) return 0;
  double rest = (std::isnan(q) ? 0.5 : std::clamp(q, 0.0, 1.0)) * total;
  for (const auto& [bucket, count] : histogram) {
    const auto here = static_cast<double>(count);
    if (rest <= here && count > 0) {
      const auto low = static_cast<double>(bucket_low(bucket));
      return low + (static_cast<double>(bucket_low(bucket + 1)) - low) * (rest / here);
    }
    rest -= here;
  }
  return static_cast<double>(bucket_low(histogram.back().first + 1)); // rounding ate the last fraction
}

bool Statistics::from(std::uint64_t count, double mean_ns, double m2_ns2, Histogram histogram, Statistics& out) {
  const auto is_bad = [](double x) { return !std::isfinite(x) || x < 0; };
  if (count > kMaxCount || is_bad(mean_ns) || is_bad(m2_ns2) || mean_ns > static_cast<double>(kMaxNs)) return false;
  std::sort(histogram.begin(), histogram.end());
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < histogram.size(); ++i) {
    const auto& [bucket, in_bucket] = histogram[i];
    const bool repeated = i > 0 && histogram[i - 1].first == bucket;
    if (bucket < 0 || bucket >= kBuckets || repeated || in_bucket > kMaxCount - total) return false;
    total += in_bucket;
  }
  if (total != count) return false;
  std::erase_if(histogram, [](const auto& entry) { return entry.second == 0; });
  out.count_ = count;
  out.mean_ = count == 0 ? 0 : mean_ns;
  out.m2_ = count == 0 ? 0 : m2_ns2;
  out.histogram_ = std::move(histogram);
  return true;
}

void Statistics::add(std::int64_t ns) {
  std::size_t room = kBuckets;
  add(ns, room);
}

void Statistics::add(std::int64_t ns, std::size_t& room) {
  if (ns < 0 || count_ >= kMaxCount) return;
  const auto value = static_cast<double>(std::min(ns, kMaxNs));
  ++count_;
  const double delta = value - mean_;
  mean_ += delta / static_cast<double>(count_);
  m2_ += delta * (value - mean_);
  count_bucket(bucket_of(ns), 1, room);
}

// Chan, Golub, LeVeque: "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
void Statistics::merge(const Statistics& other, std::size_t& room) {
  if (other.count_ == 0 || other.count_ > kMaxCount - count_) return;
  const auto mine = static_cast<double>(count_);
  const auto theirs = static_cast<double>(other.count_);
  const double delta = other.mean_ - mean_;
  mean_ = count_ == 0 ? other.mean_ : (mine * mean_ + theirs * other.mean_) / (mine + theirs); // a copy is exact
  m2_ = (m2_ + other.m2_) + delta * delta * (mine * theirs / (mine + theirs));
  count_ += other.count_;
  for (const auto& [bucket, count] : other.histogram_) count_bucket(bucket, count, room);
}

void Statistics::count_bucket(int bucket, std::uint64_t by, std::size_t& room) {
  auto it = std::lower_bound(histogram_.begin(), histogram_.end(), std::pair<int, std::uint64_t>{bucket, 0});
  const bool there = it != histogram_.end() && it->first == bucket;
  if (!there && (room > 0 || histogram_.empty())) {
    histogram_.insert(it, {bucket, by});
    if (room > 0) --room;
    return;
  }
  const bool after_all = it == histogram_.end();
  const auto left_is_nearer = [&] { return it != histogram_.begin() && bucket - std::prev(it)->first < it->first - bucket; };
  if (!there && (after_all || left_is_nearer())) --it;
  it->second += by;
}

double Statistics::typical_ns() const {
  const int middle = bucket_of(std::llround(std::floor(quantile_ns(0.5))));
  // A quantile at the very end of a bucket is the next one's start.
  const auto holds = [](int bucket) { return [bucket](const auto& entry) { return entry.first == bucket; }; };
  const bool inside = std::any_of(histogram_.begin(), histogram_.end(), holds(middle));
  const int bucket = inside || middle == 0 ? middle : middle - 1;
  return std::clamp(mean_, static_cast<double>(bucket_low(bucket)), static_cast<double>(bucket_low(bucket + 1)));
}

// By time: a kernel that is short in 199 launches of 200 may have taken nearly all its time in the others.
double Statistics::tail_ns() const {
  constexpr double kShare = 0.1;
  constexpr std::uint64_t kTwice = 2;
  const auto time_ns = [](const auto& entry) {
    return static_cast<double>(entry.second) * static_cast<double>(bucket_low(entry.first) + bucket_low(entry.first + 1)) / 2;
  };
  double all_ns = 0;
  for (const auto& entry : histogram_) all_ns += time_ns(entry);
  double tail_ns = 0;
  std::uint64_t runs = 0;
  for (auto it = histogram_.rbegin(); it != histogram_.rend(); ++it) {
    tail_ns += time_ns(*it);
    runs += it->second;
    if (tail_ns >= kShare * all_ns && runs >= std::min(kTwice, count_)) return static_cast<double>(bucket_low(it->first + 1));
  }
  return 0;
}

double Statistics::longest_ns() const { return histogram_.empty() ? 0 : static_cast<double>(bucket_low(histogram_.back().first + 1)); }

double Statistics::variation() const {
  if (count_ == 0 || mean_ <= 0) return 0;
  return std::sqrt(m2_ / static_cast<double>(count_)) / mean_;
}

} // namespace fikit::predictor
