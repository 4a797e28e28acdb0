#include "epochs.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace fikit::residency {
namespace {

// Sets that are looked at, before the best so far is taken: all sets of about 12 tenants.
constexpr int kMostLooks = 10'000;

void check(const EpochRules& rules, std::int64_t room_bytes, std::span<const Tenant> tenants) {
  if (!rules.link.is_valid()) throw std::invalid_argument("the link's rates must be positive");
  if (!(rules.most_lost > 0 && rules.most_lost < 1)) throw std::invalid_argument("the share that moves may take is between 0 and 1");
  if (!(rules.hysteresis >= 0 && std::isfinite(rules.hysteresis))) throw std::invalid_argument("hysteresis must not be negative");
  if (rules.least_epoch_ns <= 0 || rules.patience_ns <= 0 || rules.max_wait_ns <= 0)
    throw std::invalid_argument("the times of the rules must be positive");
  if (rules.beside_ns < 0) throw std::invalid_argument("the times of the rules must be positive, or 0 beside the moves");
  if (room_bytes < 0) throw std::invalid_argument("room must not be negative");
  for (const Tenant& each : tenants) {
    if (each.bytes < 0 || each.resident_bytes < 0 || each.waited_ns < 0 || each.ran_ns < 0) throw std::invalid_argument("a tenant's numbers must not be negative");
    if (!(each.work >= 0 && each.work <= 1)) throw std::invalid_argument("a tenant's work is from 0 to 1");
  }
}

// What a tenant's turn is worth. Moves take at most most_lost of an epoch and a newcomer works for the rest, so a change that costs more than it gains is never
// worth more than no change. The advantage of a tenant that runs wears off: of two that run and use the device about as much, the one that has run longer
// makes room.
double worth(const EpochRules& rules, const Tenant& tenant) {
  const double aged = tenant.work * (1 + static_cast<double>(tenant.waited_ns) / static_cast<double>(rules.patience_ns));
  if (!tenant.runs) return aged * (1 - rules.most_lost) / (1 + rules.hysteresis);
  const double worn = std::min(1.0, static_cast<double>(tenant.ran_ns) / static_cast<double>(rules.patience_ns));
  return aged / (1 + rules.hysteresis * worn);
}

// The set of most worth within the room: a search depth first, by worth per byte, that leaves out branches which cannot become better than the best so far.
class Choice {
 public:
  Choice(std::span<const Tenant> tenants, std::span<const double> worths, std::vector<std::size_t> order)
      : tenants_(tenants), worths_(worths), order_(std::move(order)), taken_(tenants.size()), best_(tenants.size()) {
    std::sort(order_.begin(), order_.end(), [this](std::size_t a, std::size_t b) { return before(a, b); });
  }

  std::vector<bool> within(std::int64_t room_bytes) {
    look(0, room_bytes, 0);
    return best_;
  }

 private:
  bool before(std::size_t a, std::size_t b) const {
    // worth / bytes without a division: a tenant may need no bytes at all
    const double left = worths_[a] * static_cast<double>(tenants_[b].bytes);
    const double right = worths_[b] * static_cast<double>(tenants_[a].bytes);
    if (left != right) return left > right;
    if (tenants_[a].runs != tenants_[b].runs) return tenants_[a].runs;
    return tenants_[a].waited_ns != tenants_[b].waited_ns ? tenants_[a].waited_ns > tenants_[b].waited_ns : a < b;
  }

  // What could still be added, if a tenant could run in part.
  double bound(std::size_t place, std::int64_t room_bytes) const {
    double sum = 0;
    for (; place < order_.size(); ++place) {
      const Tenant& tenant = tenants_[order_[place]];
      const double part = tenant.bytes <= room_bytes ? 1 : static_cast<double>(room_bytes) / static_cast<double>(tenant.bytes);
      sum += part * worths_[order_[place]];
      room_bytes -= std::min(tenant.bytes, room_bytes);
    }
    return sum;
  }

  void look(std::size_t place, std::int64_t room_bytes, double sum) {
    if (sum > best_sum_) {
      best_sum_ = sum;
      best_ = taken_;
    }
    if (place == order_.size() || ++looks_ > kMostLooks || sum + bound(place, room_bytes) <= best_sum_) return;
    const std::size_t tenant = order_[place];
    if (tenants_[tenant].bytes <= room_bytes) {
      taken_[tenant] = true;
      look(place + 1, room_bytes - tenants_[tenant].bytes, sum + worths_[tenant]);
      taken_[tenant] = false;
    }
    look(place + 1, room_bytes, sum);
  }

  std::span<const Tenant> tenants_;
  std::span<const double> worths_;
  std::vector<std::size_t> order_;
  std::vector<bool> taken_, best_;
  double best_sum_ = 0;
  int looks_ = 0;
};

std::vector<bool> chosen(const EpochRules& rules, std::int64_t room_bytes, std::span<const Tenant> tenants) {
  std::vector<std::size_t> overdue, others;
  std::vector<double> worths;
  for (std::size_t i = 0; i < tenants.size(); ++i) {
    worths.push_back(worth(rules, tenants[i]));
    if (tenants[i].work <= 0) continue;
    (!tenants[i].runs && tenants[i].waited_ns >= rules.max_wait_ns ? overdue : others).push_back(i);
  }
  std::stable_sort(overdue.begin(), overdue.end(), [&](std::size_t a, std::size_t b) { return tenants[a].waited_ns > tenants[b].waited_ns; });
  std::vector<bool> first(tenants.size());
  for (const std::size_t i : overdue) {
    if (tenants[i].bytes > room_bytes) continue;
    room_bytes -= tenants[i].bytes;
    first[i] = true;
  }
  std::vector<bool> runs = Choice(tenants, worths, others).within(room_bytes);
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i] = runs[i] || first[i];
  return runs;
}

// Bytes that may leave: all of a tenant that does not run; of one that runs, what it has beyond its need.
std::int64_t spare_bytes(bool runs, const Tenant& tenant) {
  return runs ? std::max<std::int64_t>(tenant.resident_bytes - tenant.bytes, 0) : tenant.resident_bytes;
}

// The tenants whose memory leaves, in order: first those without work, then those that have waited least, because they will wait longest for their next turn.
// ahead: tenants of neither the old nor the new epoch, whose memory can leave while the old epoch runs; else the others.
std::vector<std::size_t> leaving(const std::vector<bool>& runs, std::span<const Tenant> tenants, bool ahead) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < tenants.size(); ++i)
    if (spare_bytes(runs[i], tenants[i]) > 0 && ahead == (!runs[i] && !tenants[i].runs)) found.push_back(i);
  std::stable_sort(found.begin(), found.end(), [&](std::size_t a, std::size_t b) {
    const bool idle_a = tenants[a].work <= 0, idle_b = tenants[b].work <= 0;
    return idle_a != idle_b ? idle_a : tenants[a].waited_ns < tenants[b].waited_ns;
  });
  return found;
}

// Makes moves out, for as many bytes at a time as are asked for.
class Outs {
 public:
  Outs(const std::vector<bool>& runs, std::span<const Tenant> tenants, bool ahead) : order_(leaving(runs, tenants, ahead)), ahead_(ahead) {
    for (const std::size_t i : order_) left_bytes_.push_back(spare_bytes(runs[i], tenants[i]));
  }

  // Returns for how many bytes it made moves.
  std::int64_t make(std::int64_t bytes, std::vector<Move>& moves) {
    std::int64_t made = 0;
    while (made < bytes && next_ < order_.size()) {
      const std::int64_t part = std::min(bytes - made, left_bytes_[next_]);
      moves.push_back({.tenant = order_[next_], .bytes = part, .in = false, .ahead = ahead_});
      made += part;
      left_bytes_[next_] -= part;
      if (left_bytes_[next_] == 0) ++next_;
    }
    return made;
  }

 private:
  std::vector<std::size_t> order_;
  bool ahead_;
  std::vector<std::int64_t> left_bytes_;
  std::size_t next_ = 0;
};

constexpr double kMost = 9e18; // of ns or bytes: not quite what an int64 holds

std::int64_t rounded_up(double ns) { return static_cast<std::int64_t>(std::ceil(std::min(ns, kMost))); }

std::int64_t swap_of(const EpochRules& rules, double in_bytes, double out_bytes) {
  return rounded_up(static_cast<double>(rules.beside_ns) + rules.link.ns(true, in_bytes) + rules.link.ns(false, out_bytes));
}

std::int64_t length_of(const EpochRules& rules, std::int64_t swap_ns) {
  const double needed = static_cast<double>(swap_ns) * (1 - rules.most_lost) / rules.most_lost;
  return std::max(rules.least_epoch_ns, rounded_up(needed));
}

} // namespace

Epoch next_epoch(const EpochRules& rules, std::int64_t room_bytes, std::span<const Tenant> tenants) {
  check(rules, room_bytes, tenants);
  Epoch epoch;
  epoch.runs = chosen(rules, room_bytes, tenants);
  double there_bytes = 0; // a double: sums of untrusted numbers do not overflow
  for (const Tenant& each : tenants) there_bytes += static_cast<double>(each.resident_bytes);
  const double free = static_cast<double>(room_bytes) - there_bytes;
  std::int64_t free_bytes = free > 0 ? static_cast<std::int64_t>(std::min(free, kMost)) : 0;
  // The room may have become smaller: what is on the GPU beyond it leaves in any case.
  const std::int64_t over_bytes = free < 0 ? static_cast<std::int64_t>(std::min(-free, kMost)) : 0;

  Outs idle(epoch.runs, tenants, true), others(epoch.runs, tenants, false);
  std::vector<Move> ahead;
  const std::int64_t over_idle_bytes = idle.make(over_bytes, ahead);
  double in_bytes = 0, out_bytes = static_cast<double>(others.make(over_bytes - over_idle_bytes, epoch.moves));
  for (std::size_t i = 0; i < tenants.size(); ++i) {
    std::int64_t missing = epoch.runs[i] ? std::max<std::int64_t>(tenants[i].bytes - tenants[i].resident_bytes, 0) : 0;
    if (missing > free_bytes) free_bytes += idle.make(missing - free_bytes, ahead);
    if (const std::int64_t early = std::min(missing, free_bytes); early > 0) {
      ahead.push_back({.tenant = i, .bytes = early, .in = true, .ahead = true});
      free_bytes -= early;
      missing -= early;
    }
    if (missing == 0) continue;
    out_bytes += static_cast<double>(others.make(missing, epoch.moves));
    in_bytes += static_cast<double>(missing);
    epoch.moves.push_back({.tenant = i, .bytes = missing, .in = true, .ahead = false});
  }
  epoch.moves.insert(epoch.moves.begin(), ahead.begin(), ahead.end());
  epoch.swap_ns = in_bytes + out_bytes > 0 ? swap_of(rules, in_bytes, out_bytes) : 0;
  epoch.length_ns = length_of(rules, epoch.swap_ns);
  return epoch;
}

std::int64_t longest_wait_ns(const EpochRules& rules, std::int64_t room_bytes, std::size_t tenants) {
  check(rules, room_bytes, {});
  const std::int64_t swap_ns = swap_of(rules, static_cast<double>(room_bytes), static_cast<double>(room_bytes)); // all of it out, and as much in
  const double turn_ns = static_cast<double>(swap_ns) + static_cast<double>(length_of(rules, swap_ns));
  // Until it is overdue; one epoch for each tenant that may be taken before it, with the one that runs then; and the swap for its own turn.
  return rounded_up(static_cast<double>(rules.max_wait_ns) + static_cast<double>(tenants) * turn_ns + static_cast<double>(swap_ns));
}

} // namespace fikit::residency
