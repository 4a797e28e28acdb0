#include "grant_watch.hpp"

#include <algorithm>
#include <span>

namespace fikit::tracking {

void GrantWatch::launched(const Launch& launch) {
  if (launch.slot == 0 || launch.slot >= FIKIT_SLOTS) return;
  if (count_ == 0 || grants_[count_ - 1].request != launch.request) {
    if (count_ == kKept) std::move(grants_.begin() + 1, grants_.end(), grants_.begin()), --count_;
    grants_[count_++] = {.request = launch.request, .slots = {}};
    ++unconfirmed_;
  }
  Grant& grant = grants_[count_ - 1];
  ++grant.launches;
  grant.known = grant.known && launch.duration_ns >= 0;
  grant.length_ns += std::max<std::int64_t>(launch.duration_ns, 0);
  grant.longer_ns = std::max(grant.longer_ns, launch.longest_ns - launch.duration_ns);
  grant.end_ns = launch.end_ns;
  grant.works_ns = launch.works_ns;
  const auto slots = std::span(grant.slots).first(grant.slot_count);
  const auto slot = static_cast<std::uint16_t>(launch.slot);
  if (std::ranges::find(slots, slot) == slots.end() && grant.slot_count < kSlots) grant.slots[grant.slot_count++] = slot;
}

// The device served others at most for as long as their work takes: for the rest of the time it had this client's.
std::int64_t GrantWatch::unexplained_ns(const Grant& grant, const Moment& end, std::int64_t works_ns) const {
  if (!grant.known || end.since_ns == policy::kLongAgo) return 0;
  const std::int64_t reckoned_ns = before_ns_ == policy::kLongAgo ? grant.end_ns : std::max(grant.end_ns, before_ns_ + grant.length_ns);
  const std::int64_t late_ns = end.since_ns - reckoned_ns - (works_ns - grant.works_ns) - grant.longer_ns;
  return late_ns > kUnclearNs && late_ns > grant.length_ns ? late_ns : 0;
}

void GrantWatch::done(std::uint32_t request, const Moment& end, std::int64_t works_ns) {
  unconfirmed_ = 0;
  const auto grants = std::span(grants_).first(count_);
  const auto grant = std::ranges::find(grants, request, &Grant::request);
  if (grant == grants.end()) return;
  ended(*grant, unexplained_ns(*grant, end, works_ns), end.until_ns);
  std::move(grant + 1, grants.end(), grant);
  --count_;
  before_ns_ = end.until_ns;
}

void GrantWatch::all_done(const Moment& end, std::int64_t works_ns) {
  unconfirmed_ = 0;
  if (count_ == 0) return;
  // The newest was reckoned to end last. If all together took longer, any of them may have.
  const std::int64_t longer_ns = unexplained_ns(grants_[count_ - 1], end, works_ns);
  for (Grant& grant : std::span(grants_).first(count_)) {
    if (count_ > 1) ++grant.launches; // none is known to have done so alone
    ended(grant, longer_ns, end.until_ns);
  }
  count_ = 0;
  before_ns_ = end.until_ns;
}

// A run that took longer makes all its kernels suspect. Each is granted alone then, and those that take no longer are cleared.
void GrantWatch::ended(const Grant& grant, std::int64_t longer_ns, std::int64_t now_ns) {
  const bool one = grant.launches == 1;
  const std::int64_t took_ns = (one ? grant.length_ns : 0) + longer_ns;
  if (longer_ns > 0) fear_.took(took_ns, now_ns);
  for (const std::uint16_t slot : std::span(grant.slots).first(grant.slot_count)) {
    if (seen_.size() <= slot) seen_.resize(slot + std::size_t{1});
    Seen& seen = seen_[slot];
    seen.ended = std::min(seen.ended + 1, kInARow);
    if (longer_ns > 0) {
      seen.fear.took(took_ns, now_ns);
      seen.surely |= one;
      seen.clean = 0;
      seen.least_ns = seen.row == 0 ? took_ns : std::min(seen.least_ns, took_ns);
      seen.row = one ? std::min(seen.row + 1, kInARow) : 0;
    } else {
      seen.row = 0;
      if (one && ++seen.clean >= kInARow && !seen.surely) seen.fear.forget();
    }
  }
}

} // namespace fikit::tracking
