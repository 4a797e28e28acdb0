#include "slowdowns.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace fikit::placement {
namespace {

constexpr double kLeastShare = 0.01; // of the device: the slowest of 121 simulated jobs was slowed 103 times

} // namespace

// one_queue: derived, and checked against an earlier simulator. slices: what `python -m bench slowdowns --fit` finds (bench/scheduling/closed_form.py
// says how; a test holds them to it). mps: fitted by hand to `python -m bench slowdowns --device mps`. docs/design/placement.md has the errors.
Slowdowns::Constants Slowdowns::constants(Device device) {
  constexpr Form kDerived{.granted = 0.9, .power = 1, .crossing = 0};
  switch (device) {
    case Device::slices:
      return {.high_slowdown = 1.01,
              .ordered = {.granted = 0.95, .power = 1.3, .crossing = 1.2},
              .equal = {.granted = 1.15, .power = 1.4, .crossing = 0}};
    case Device::mps:
      return {.high_slowdown = 1.01,
              .ordered = {.granted = 0.98, .power = 1.95, .crossing = 0.2},
              .equal = {.granted = 1, .power = 0.9, .crossing = 0}};
    case Device::one_queue: break;
  }
  return {.high_slowdown = 1.03, .ordered = kDerived, .equal = kDerived};
}

double Slowdowns::rate(const Form& form, double busy, double left, double taken, double least) {
  const double free = std::max(left, 0.0);
  const double share = std::max(form.granted * (form.power == 1 ? free : std::pow(free, form.power)), least);
  return std::min(1.0, 1 / ((1 - busy) + busy / share + form.crossing * taken));
}

void Slowdowns::ordered(std::span<const Load> loads, std::span<double> rates) const {
  double taken = 0; // of the device, by those above
  for (std::size_t i = 0; i < loads.size(); ++i) {
    rates[i] = i == 0 ? 1 / form_.high_slowdown : rate(form_.ordered, loads[i].busy, 1 - taken, taken, kLeastShare);
    taken += rates[i] * loads[i].busy;
  }
}

void Slowdowns::equal(std::span<const Load> loads, std::span<double> rates) const {
  double wanted = 0;
  for (const Load& load : loads) wanted += load.busy;
  const double least = form_.equal.granted / static_cast<double>(loads.size()); // everybody's turn
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const double others = wanted - loads[i].busy;
    rates[i] = rate(form_.equal, loads[i].busy, 1 - others, std::min(others, 1.0), least);
  }
}

Slowdowns::Slowdowns(std::size_t kinds, Device device) : kinds_(kinds), form_(constants(device)) {
  if (kinds > 10'000) throw std::invalid_argument("pairs of at most 10,000 kinds of jobs");
  ordered_.resize(kinds * kinds);
  equal_.resize(kinds * kinds);
}

void Slowdowns::measured(Priorities priorities, std::size_t first, std::size_t second, double slowdown_first, double slowdown_second) {
  if (priorities == Priorities::automatic) throw std::invalid_argument("a pair is measured with priorities or without");
  if (first >= kinds_ || second >= kinds_) throw std::invalid_argument("a measured pair is of a kind that there is no room for");
  for (const double slowdown : {slowdown_first, slowdown_second}) {
    if (!std::isfinite(slowdown) || slowdown <= 0) throw std::invalid_argument("a slowdown must be a positive number");
  }
  const Pair pair{.first = static_cast<float>(slowdown_first), .second = static_cast<float>(slowdown_second)};
  if (priorities != Priorities::equal) {
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
  if (priorities == Priorities::listed) priorities = Priorities::ordered;
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
