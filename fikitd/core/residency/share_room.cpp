// Budgets for several jobs, by dynamic programming: each point of a job with each useful sum of the jobs before it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "budget.hpp"

namespace fikit::residency {
namespace {

constexpr std::size_t kMostSums = 512; // of more, evenly spaced ones are kept: 64 jobs of eight budgets take some 25 ms

struct Sum {
  std::int64_t bytes = 0;
  double lost = 0;
  std::size_t before = 0; // index of the sum of the jobs before
  std::size_t point = 0;
};

void check(std::span<const std::vector<Point>> jobs) {
  for (const auto& points : jobs) {
    if (points.empty()) throw std::invalid_argument("a job has no budget to choose from");
    for (const Point& each : points)
      if (each.bytes < 0 || !std::isfinite(each.lost)) throw std::invalid_argument("a budget has bytes and a cost");
  }
}

// Those sums for which no other sum needs no more bytes and loses no more.
std::vector<Sum> useful(std::vector<Sum> sums) {
  std::sort(sums.begin(), sums.end(), [](const Sum& a, const Sum& b) { return a.bytes != b.bytes ? a.bytes < b.bytes : a.lost < b.lost; });
  std::vector<Sum> found;
  for (const Sum& each : sums)
    if (found.empty() || each.lost < found.back().lost) found.push_back(each);
  if (found.size() <= kMostSums) return found;
  std::vector<Sum> fewer;
  for (std::size_t i = 0; i < kMostSums; ++i) fewer.push_back(found[i * (found.size() - 1) / (kMostSums - 1)]);
  return fewer;
}

} // namespace

std::vector<std::size_t> share_room(std::span<const std::vector<Point>> jobs, std::int64_t room_bytes) {
  check(jobs);
  std::vector<std::vector<Sum>> sums{{Sum{}}};
  for (const auto& points : jobs) {
    std::vector<Sum> next;
    for (std::size_t before = 0; before < sums.back().size(); ++before)
      for (std::size_t point = 0; point < points.size(); ++point) {
        const Sum& sum = sums.back()[before];
        if (points[point].bytes > room_bytes - sum.bytes) continue;
        next.push_back({.bytes = sum.bytes + points[point].bytes, .lost = sum.lost + points[point].lost, .before = before, .point = point});
      }
    sums.push_back(useful(std::move(next)));
    if (sums.back().empty()) return {};
  }
  std::vector<std::size_t> chosen(jobs.size());
  std::size_t at = sums.back().size() - 1; // the least lost is the last of the useful ones
  for (std::size_t job = jobs.size(); job > 0; --job) {
    chosen[job - 1] = sums[job][at].point;
    at = sums[job][at].before;
  }
  return chosen;
}

} // namespace fikit::residency
