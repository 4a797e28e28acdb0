#include "history.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace fikit::placement {
namespace {

void check(double run_s) {
  if (!std::isfinite(run_s) || run_s <= 0) throw std::invalid_argument("a run time must be a positive number of seconds");
}

} // namespace

History::History(std::span<const double> runs_s) {
  for (const double run_s : runs_s) check(run_s);
  by_age_.assign(runs_s.size() > kMost ? runs_s.end() - kMost : runs_s.begin(), runs_s.end());
  sum();
}

void History::add(double run_s) {
  check(run_s);
  if (by_age_.size() == kMost) by_age_.erase(by_age_.begin());
  by_age_.push_back(run_s);
  sum();
}

void History::sum() {
  ascending_ = by_age_;
  std::ranges::sort(ascending_);
  from_.assign(ascending_.size(), 0);
  double sum = 0;
  for (std::size_t i = ascending_.size(); i-- > 0;) from_[i] = sum += ascending_[i];
}

double History::expected_rest_s(double run_s, double limit_s) const {
  const double left_s = std::max(limit_s - run_s, 0.0);
  if (ascending_.empty()) return left_s;
  const auto longer = std::ranges::upper_bound(ascending_, run_s);
  if (longer == ascending_.end()) return std::min(run_s, left_s);
  const auto first = static_cast<std::size_t>(longer - ascending_.begin());
  const double mean_s = from_[first] / static_cast<double>(ascending_.size() - first);
  return std::min(mean_s - run_s, left_s);
}

double History::next_jump_s(double run_s) const {
  const auto longer = std::ranges::upper_bound(ascending_, run_s);
  return longer == ascending_.end() ? kNoLimit : *longer;
}

double History::median_s() const {
  if (ascending_.empty()) return 0;
  const std::size_t middle = ascending_.size() / 2;
  return ascending_.size() % 2 == 1 ? ascending_[middle] : (ascending_[middle - 1] + ascending_[middle]) / 2;
}

} // namespace fikit::placement
