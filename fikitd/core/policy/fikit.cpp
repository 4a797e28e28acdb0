#include "fikit.hpp"

#include <algorithm>

namespace fikit::policy {
namespace {

// Within one level: in a gap the longest first, so that little of it is wasted; otherwise equals take turns.
bool goes_before(const Client& a, const Client& b, bool in_gap) {
  if (in_gap && a.waiting_duration_ns != b.waiting_duration_ns) return a.waiting_duration_ns > b.waiting_duration_ns;
  return a.waiting_since_ns < b.waiting_since_ns;
}

} // namespace

std::int64_t Fikit::idle_at_ns(const Client& client) const {
  const std::int64_t dry_ns = client.progress.dry_ns();
  if (client.progress.uncertain()) return dry_ns; // its lease is over by then: that is patience enough
  const std::int64_t gap_ns = std::clamp<std::int64_t>(client.gap_ns, 0, options().lease_ns);
  return dry_ns + std::min(gap_ns + options().idle_after_ns, options().lease_ns);
}

Fikit::Room Fikit::room_above(int priority, std::int64_t now_ns) const {
  Room room;
  for (const Client& client : clients().all()) {
    if (client.measuring || client.priority >= priority) continue;
    if (client.progress.busy(now_ns)) {
      room.blocked = true;
      return room;
    }
    if (client.waiting) continue; // it had the first choice of this gap and does not fit
    const std::int64_t gap_end_ns = client.progress.dry_ns() + std::clamp<std::int64_t>(client.gap_ns, 0, kHorizonNs);
    if (now_ns >= idle_at_ns(client)) {
      room.idle = true;
    } else if (now_ns < gap_end_ns && !client.progress.uncertain()) {
      room.gap_end_ns = std::min(room.gap_end_ns, gap_end_ns);
    } else {
      room.blocked = true; // its next launch is due
      return room;
    }
  }
  return room;
}

std::optional<std::int64_t> Fikit::lower_free_ns(std::int64_t now_ns) const {
  std::int64_t free_ns = now_ns;
  for (const Client& client : clients().all()) {
    if (!client.closed) continue;
    if (client.progress.uncertain_at(now_ns) || client.overdue(now_ns)) return std::nullopt;
    free_ns = std::max(free_ns, client.progress.finish_ns());
  }
  return free_ns;
}

bool Fikit::fits(const Client& client, const Room& room, std::int64_t now_ns, std::int64_t free_ns) const {
  const bool known = client.waiting_duration_ns >= 0;
  if (client.grant_count == kMaxGrants) return false;
  if (room.gap_end_ns != kNever) {
    const std::int64_t rest_ns = room.gap_end_ns - free_ns;
    if (!known || rest_ns <= options().epsilon_ns || client.waiting_duration_ns > rest_ns) return false;
    if (!room.idle) return true;
  }
  const std::int64_t in_flight_ns = free_ns - now_ns;
  return in_flight_ns == 0 || (known && in_flight_ns + client.waiting_duration_ns <= options().run_ahead_ns);
}

Client* Fikit::choose(std::int64_t now_ns) {
  const std::optional<std::int64_t> free_ns = lower_free_ns(now_ns);
  if (!free_ns) return nullptr;
  for (int priority = 0; priority <= 9; ++priority) { // Q0..Q9
    const Room room = room_above(priority, now_ns);
    if (room.blocked) return nullptr; // so is every lower level
    const bool in_gap = room.gap_end_ns != kNever;
    Client* best = nullptr;
    for (Client& client : clients().all()) {
      if (!client.waiting || client.priority != priority) continue;
      if (in_gap && !fits(client, room, now_ns, *free_ns)) continue;
      if (best == nullptr || goes_before(client, *best, in_gap)) best = &client;
    }
    if (best == nullptr) continue;
    if (in_gap || fits(*best, room, now_ns, *free_ns)) return best;
    return nullptr; // it is next: lower levels do not overtake it while the holders are idle
  }
  return nullptr;
}

std::int64_t Fikit::next_change_ns(std::int64_t now_ns) const {
  std::int64_t next_ns = kNever;
  const auto consider = [&](std::int64_t moment_ns) {
    if (moment_ns > now_ns) next_ns = std::min(next_ns, moment_ns);
  };
  int lowest_waiting = -1;
  for (const Client& client : clients().all())
    if (client.waiting) lowest_waiting = std::max(lowest_waiting, client.priority);
  for (const Client& client : clients().all()) {
    if (client.measuring) continue;
    consider(client.progress.dry_ns());
    consider(client.forget_ns());
    if (client.priority < lowest_waiting) consider(idle_at_ns(client));
    if (!client.waiting || client.waiting_duration_ns < 0 || !room_above(client.priority, now_ns).idle) continue;
    for (const Client& other : clients().all()) // when so much has run that this kernel is within the run-ahead
      if (other.closed) consider(other.progress.finish_ns() + client.waiting_duration_ns - options().run_ahead_ns);
  }
  return next_ns;
}

} // namespace fikit::policy
