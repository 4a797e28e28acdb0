// Mergeable statistics of a positive quantity in nanoseconds: count, mean, M2 and a log-bucket histogram (D10).
// Merging is commutative, and associative for counts and buckets (for mean and M2 up to rounding), where there is room for all buckets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace fikit::predictor {

// Buckets: 0..15 ns exactly, then eight per doubling (12.5 % wide), up to kMaxNs (73 minutes), where values are cut off.
inline constexpr std::int64_t kMaxNs = (std::int64_t{1} << 42) - 1;
inline constexpr int kBuckets = 320;
int bucket_of(std::int64_t ns);          // of a value cut to 0..kMaxNs
std::int64_t bucket_low(int bucket);     // smallest value in it; bucket_low(kBuckets) = kMaxNs + 1
using Histogram = std::vector<std::pair<int, std::uint64_t>>; // (bucket, count), ascending, no empty ones
double quantile(std::span<const std::pair<int, std::uint64_t>> histogram, double q); // 0 when empty; linear in a bucket

class Statistics {
 public:
  // What a profile holds. From outside: numbers that cannot be (not finite, negative, a histogram that does not add up
  // to the count) give nothing, see from().
  static bool from(std::uint64_t count, double mean_ns, double m2_ns2, Histogram histogram, Statistics& out);

  // `room`: buckets that the histograms of a whole model may still gain. Where none is left, values go to the nearest
  // bucket that is there: counts stay right, quantiles become coarse. Without it: as many as there are.
  void add(std::int64_t ns, std::size_t& room); // negative values are not counted, huge ones cut to kMaxNs
  void add(std::int64_t ns);
  void merge(const Statistics& other, std::size_t& room);

  std::uint64_t count() const { return count_; }
  double mean_ns() const { return mean_; }
  double m2_ns2() const { return m2_; }
  const Histogram& histogram() const { return histogram_; }
  double quantile_ns(double q) const { return quantile(histogram_, q); }
  // The best guess of the next value: the mean, but not outside the median's bucket. Where the values lie close together
  // that is the mean; where a few lie far away it is not drawn to them.
  double typical_ns() const;
  // Runs of this length or longer take a tenth of the time of all runs. A length that came only once says nothing.
  double tail_ns() const;
  double longest_ns() const; // the end of the highest bucket; 0: nothing is known
  double variation() const; // standard deviation / mean; 0 when there is no mean

 private:
  void count_bucket(int bucket, std::uint64_t by, std::size_t& room);

  std::uint64_t count_ = 0;
  double mean_ = 0;
  double m2_ = 0;
  Histogram histogram_;
};

} // namespace fikit::predictor
