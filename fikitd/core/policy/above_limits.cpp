// What those above refuse to many at once. A delay grows with the length of the work that causes it, and the longer that is the
// faster it grows (Remaining::at), while what may be paid for it is a share of its length, or a sum. So the tangent of the delay
// at one length, which it is nowhere below, says of all lengths on one side of a certain one that they are too dear.
#include <algorithm>

#include "above.hpp"

namespace fikit::policy {
namespace {

constexpr int kTangents = 4;       // each comes nearer to the length that may just be granted
constexpr std::int64_t kNear = 16; // so near, as a part of it, that the few between are as well asked alone

// The tangent exceeds the line by over_ns, and by less and less: for so many ns more it still does.
std::int64_t still_over_ns(double over_ns, double less_each_ns, std::int64_t most_ns) {
  return static_cast<std::int64_t>(std::min(over_ns / less_each_ns, static_cast<double>(most_ns)));
}

} // namespace

// The shortest of these that may cost no more than the line; longer than all if there is none.
std::int64_t Above::shortest_under(const Line& line, const Higher& higher, const Lengths& asked, bool late) const {
  std::int64_t shortest_ns = asked.shortest_ns;
  for (int tangent = 0; tangent < kTangents && shortest_ns <= asked.longest_ns; ++tangent) {
    const Remaining::At at = cost(higher, shortest_ns, late);
    const double over_ns = at.mean_ns - kRoundingNs - line.at(static_cast<double>(shortest_ns));
    if (over_ns <= 0) break;
    if (at.share >= line.share) return asked.longest_ns + 1;
    const std::int64_t step_ns = still_over_ns(over_ns, line.share - at.share, asked.longest_ns + 1 - shortest_ns);
    shortest_ns += step_ns;
    if (step_ns <= shortest_ns / kNear) break;
  }
  return shortest_ns;
}

// The longest; shorter than all if there is none.
std::int64_t Above::longest_under(const Line& line, const Higher& higher, const Lengths& asked, bool late) const {
  std::int64_t longest_ns = asked.longest_ns;
  for (int tangent = 0; tangent < kTangents && longest_ns >= asked.shortest_ns; ++tangent) {
    const Remaining::At at = cost(higher, longest_ns, late);
    const double over_ns = at.mean_ns - kRoundingNs - line.at(static_cast<double>(longest_ns));
    if (over_ns <= 0) break;
    if (at.share <= line.share) return asked.shortest_ns - 1;
    const std::int64_t step_ns = still_over_ns(over_ns, at.share - line.share, longest_ns + 1 - asked.shortest_ns);
    longest_ns -= step_ns;
    if (step_ns <= longest_ns / kNear) break;
  }
  return longest_ns;
}

// Work may cost this share of its length, as far as the budget lasts.
double Above::share_of(const Account::Means& means) const {
  return means.covers(0) ? std::max(means.price().share, options_.tuning.nothing) : options_.tuning.nothing;
}

Above::Limits Above::limits(std::size_t number, const Lengths& asked) const {
  const Higher& higher = all_[number];
  const Protection& protection = higher.client->protection;
  Limits limits{.granted = asked, .why = {.reason = Reason::does_not_fit, .by = higher.client->id}};
  Lengths& granted = limits.granted;
  if (higher.uncertain) {
    granted.longest_ns = asked.shortest_ns - 1;
    limits.why.reason = Reason::uncertain;
    return limits;
  }
  if (protection.max_delay_ns != kNever) {
    const std::int64_t delay_ns = higher.account->longest_delay_ns(begin_ns_ + asked.longest_ns, now_ns_);
    granted.longest_ns -= std::max<std::int64_t>(0, delay_ns - protection.max_delay_ns);
    limits.fits_ns = granted.longest_ns;
  }
  if (lets_all_go(higher, asked.shortest_ns)) return limits; // who asks for more is asked about alone
  const bool late = higher.account->doubtful();
  if (higher.at_work) limits.why.reason = Reason::behind;
  else limits.covered_ns = longest_covered_ns(higher, granted, late);
  const double nothing_ns = options_.tuning.nothing * static_cast<double>(asked.longest_ns);
  if (higher.means.most_ns() > nothing_ns) granted.longest_ns = std::min(granted.longest_ns, limits.covered_ns);
  granted = under({.share = share_of(higher.means)}, higher, granted, late);
  if (higher.means.dearer_than_fair()) granted = under(higher.means.fair(), higher, granted, late);
  return limits;
}

// Those that may cost no more than the line. In line the delay of nothing is nothing: then who can afford the longest can afford
// them all.
Lengths Above::under(const Line& line, const Higher& higher, Lengths asked, bool late) const {
  if (!in_line()) asked.shortest_ns = shortest_under(line, higher, asked, late);
  const std::int64_t longest_ns = longest_under(line, higher, asked, late);
  const bool all = longest_ns == asked.longest_ns;
  asked.longest_ns = longest_ns;
  if (in_line() && !all) asked.shortest_ns = shortest_under(line, higher, asked, late);
  return asked;
}

// There is enough left of its budget for no more than this.
std::int64_t Above::longest_covered_ns(const Higher& higher, const Lengths& asked, bool late) const {
  if (!higher.means.covers(0)) return asked.shortest_ns - 1;
  const double most_ns = higher.means.most_ns();
  const double stretch = late ? options_.tuning.late : 1;
  if (stretch * static_cast<double>(begin_ns_ + asked.longest_ns - free_ns_) <= most_ns) return kNever; // a delay is no longer than this
  return longest_under({.fixed_ns = most_ns}, higher, asked, late);
}

std::int64_t Above::longest_ahead_ns(std::size_t number, const Lengths& asked) const {
  const Higher& higher = all_[number];
  if (lets_all_go(higher, asked.shortest_ns)) return asked.longest_ns;
  Lengths granted{.shortest_ns = asked.shortest_ns, .longest_ns = std::min(asked.longest_ns, longest_ahead_ns(higher))};
  if (!deep_ || !granted.any()) return granted.longest_ns;
  const Protection& protection = higher.client->protection;
  if (!higher.account->foreseeable()) return asked.shortest_ns - 1;
  if (protection.max_delay_ns != kNever) {
    const std::int64_t delay_ns = higher.account->longest_delay_ns(late_ns(begin_ns_ + granted.longest_ns), now_ns_);
    const double over_ns = static_cast<double>(delay_ns - protection.max_delay_ns) - kRoundingNs;
    if (over_ns > 0) granted.longest_ns -= static_cast<std::int64_t>(over_ns / options_.tuning.late);
  }
  const Account::Means means = higher.account->means(now_ns_, true, protection.max_slowdown);
  return longest_under({.share = share_of(means)}, higher, granted, true);
}

} // namespace fikit::policy
