#include "slowdowns.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace fikit::placement {
namespace {

double rate(double busy, double share) {
  return 1 / ((1 - busy) + busy / (Slowdowns::kGranted * std::max(share, Slowdowns::kLeastShare)));
}

void ordered(std::span<const Load> loads, std::span<double> rates) {
  double taken = 0; // of the device, by those above
  for (std::size_t i = 0; i < loads.size(); ++i) {
    rates[i] = i == 0 ? 1 / Slowdowns::kHighSlowdown : rate(loads[i].busy, 1 - taken);
    taken += rates[i] * loads[i].busy;
  }
}

void equal(std::span<const Load> loads, std::span<double> rates) {
  double wanted = 0;
  for (const Load& load : loads) wanted += load.busy;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const double left = 1 - (wanted - loads[i].busy);
    rates[i] = rate(loads[i].busy, std::max(left, 1 / static_cast<double>(loads.size())));
  }
}

} // namespace

Slowdowns::Slowdowns(std::size_t kinds) : kinds_(kinds) {
  if (kinds > 10'000) throw std::invalid_argument("pairs of at most 10,000 kinds of jobs");
  ordered_.resize(kinds * kinds);
  equal_.resize(kinds * kinds);
}

void Slowdowns::measured(Priorities priorities, std::size_t first, std::size_t second, double slowdown_first, double slowdown_second) {
  if (first >= kinds_ || second >= kinds_) throw std::invalid_argument("a measured pair is of a kind that there is no room for");
  for (const double slowdown : {slowdown_first, slowdown_second}) {
    if (!std::isfinite(slowdown) || slowdown <= 0) throw std::invalid_argument("a slowdown must be a positive number");
  }
  const Pair pair{.first = static_cast<float>(slowdown_first), .second = static_cast<float>(slowdown_second)};
  if (priorities == Priorities::ordered) {
    ordered_[first * kinds_ + second] = pair;
  } else {
    equal_[second * kinds_ + first] = {.first = pair.second, .second = pair.first};
    equal_[first * kinds_ + second] = pair;
  }
}

const Slowdowns::Pair* Slowdowns::pair(Priorities priorities, const Load& first, const Load& second) const {
  const auto known = [&](int kind) { return kind >= 0 && static_cast<std::size_t>(kind) < kinds_; };
  if (!known(first.kind) || !known(second.kind)) return nullptr;
  const auto& of = priorities == Priorities::ordered ? ordered_ : equal_;
  const Pair& found = of[static_cast<std::size_t>(first.kind) * kinds_ + static_cast<std::size_t>(second.kind)];
  return found.first > 0 ? &found : nullptr;
}

void Slowdowns::rates(Priorities priorities, std::span<const Load> loads, std::span<double> rates) const {
  if (loads.size() == 1) {
    rates[0] = 1;
    return;
  }
  if (loads.size() == 2) {
    if (const Pair* measured = pair(priorities, loads[0], loads[1])) {
      rates[0] = 1 / static_cast<double>(measured->first);
      rates[1] = 1 / static_cast<double>(measured->second);
      return;
    }
  }
  if (priorities == Priorities::ordered) {
    ordered(loads, rates);
  } else {
    equal(loads, rates);
  }
}

} // namespace fikit::placement
