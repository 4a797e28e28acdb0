#include "paper.hpp"

#include <algorithm>

namespace fikit::policy {
namespace {

// Within one level: in a gap the longest first, so that little of it is wasted; otherwise equals take turns.
bool goes_before(const Client& a, const Client& b, bool in_gap) {
  if (in_gap && a.waiting_duration_ns != b.waiting_duration_ns) return a.waiting_duration_ns > b.waiting_duration_ns;
  return a.waiting_since_ns < b.waiting_since_ns;
}

} // namespace

std::int64_t Paper::idle_at_ns(const Client& client) const {
  const std::int64_t dry_ns = client.progress.dry_ns();
  if (client.progress.uncertain()) return dry_ns; // its lease is over by then: that is patience enough
  const std::int64_t gap_ns = std::clamp<std::int64_t>(client.gap_ns, 0, options().lease_ns);
  return dry_ns + std::min(gap_ns + options().idle_after_ns, options().lease_ns);
}

Paper::Room Paper::room_above(int priority, std::int64_t now_ns) const {
  Room room;
  for (const Client& client : clients().all()) {
    if (client.measuring || client.priority >= priority) continue;
    if (client.progress.busy(now_ns)) {
      room.blocked_by = &client;
      return room;
    }
    if (client.waiting) continue; // it had the first choice of this gap and does not fit
    const std::int64_t gap_end_ns = client.progress.dry_ns() + std::clamp<std::int64_t>(client.gap_ns, 0, kHorizonNs);
    if (now_ns >= idle_at_ns(client)) {
      room.idle = true;
    } else if (now_ns < gap_end_ns && !client.progress.uncertain()) {
      if (gap_end_ns < room.gap_end_ns) room.gap_of = &client;
      room.gap_end_ns = std::min(room.gap_end_ns, gap_end_ns);
    } else {
      room.blocked_by = &client; // its next launch is due
      return room;
    }
  }
  return room;
}

Paper::Lower Paper::lower_work(std::int64_t now_ns) const {
  Lower lower{.free_ns = now_ns};
  for (const Client& client : clients().all()) {
    if (!client.closed) continue;
    if (client.progress.uncertain_at(now_ns) || client.overdue(now_ns)) lower.unclear = &client;
    if (client.progress.finish_ns() > lower.free_ns) lower.last = &client;
    lower.free_ns = std::max(lower.free_ns, client.progress.finish_ns());
  }
  return lower;
}

WaitReason Paper::obstacle(const Client& client, const Room& room, std::int64_t now_ns, const Lower& lower) const {
  const bool known = client.waiting_duration_ns >= 0 && !client.waiting_exclusive;
  const Reason no_length = client.waiting_exclusive ? Reason::does_not_fit : Reason::unknown;
  if (lower.unclear != nullptr) return {.reason = Reason::uncertain, .by = lower.unclear->id};
  if (client.grant_count == kMaxGrants) return {.reason = Reason::run_ahead, .by = client.id};
  if (room.gap_end_ns != kNever) {
    const std::int64_t rest_ns = room.gap_end_ns - lower.free_ns;
    if (!known) return {.reason = no_length, .by = room.gap_of->id};
    if (rest_ns <= options().min_gap_ns || client.waiting_duration_ns > rest_ns)
      return {.reason = Reason::does_not_fit, .by = room.gap_of->id};
    if (!room.idle) return {};
  }
  if (lower.last == nullptr) return {};
  if (!known) return {.reason = no_length, .by = lower.last->id};
  if (lower.free_ns - now_ns + client.waiting_duration_ns <= options().run_ahead_ns) return {};
  return {.reason = Reason::run_ahead, .by = lower.last->id};
}

void Paper::hold_below(int priority, const WaitReason& why) {
  for (Client& client : clients().all())
    if (client.waits_here() && client.priority >= priority) hold(client, why);
}

// The one that goes next in this level, whether or not it may go now; in a gap, of those that may.
Client* Paper::best_of_level(int priority, const Room& room, std::int64_t now_ns, const Lower& lower) {
  const bool in_gap = room.gap_end_ns != kNever;
  Client* best = nullptr;
  for (Client& client : clients().all()) {
    if (!client.waiting || client.priority != priority) continue;
    const WaitReason why = obstacle(client, room, now_ns, lower);
    hold(client, why);
    if (in_gap && why.reason != Reason::none) continue;
    if (best == nullptr || goes_before(client, *best, in_gap)) best = &client;
  }
  return best;
}

Client* Paper::choose(std::int64_t now_ns) {
  const Lower lower = lower_work(now_ns);
  for (int priority = 0; priority <= 9; ++priority) { // Q0..Q9
    const Room room = room_above(priority, now_ns);
    if (room.blocked_by != nullptr) { // so is every lower level
      hold_below(priority, behind(*room.blocked_by, now_ns));
      return nullptr;
    }
    Client* best = best_of_level(priority, room, now_ns, lower);
    if (best == nullptr || lower.unclear != nullptr) continue;
    if (best->decided != Decided::here && room.gap_end_ns != kNever) continue; // another level did not let it fill the gap
    if (best->decided == Decided::here && held(*best).reason == Reason::none) return best;
    // It is next: lower levels do not overtake it while the holders are idle.
    hold_waiting([&](const Client& client) {
      return client.priority < priority || &client == best ? held(client) : after(*best, client);
    });
    return nullptr;
  }
  return nullptr;
}

std::int64_t Paper::next_change_ns(std::int64_t now_ns) const {
  std::int64_t next_ns = kNever;
  const auto consider = [&](std::int64_t moment_ns) {
    if (moment_ns > now_ns) next_ns = std::min(next_ns, moment_ns);
  };
  int lowest_waiting = -1;
  for (const Client& client : clients().all())
    if (client.waits_here()) lowest_waiting = std::max(lowest_waiting, client.priority);
  for (const Client& client : clients().all()) {
    if (client.measuring) continue;
    consider(client.progress.dry_ns());
    consider(client.forget_ns());
    if (client.priority < lowest_waiting) consider(idle_at_ns(client));
    if (!client.waits_here() || client.waiting_duration_ns < 0 || !room_above(client.priority, now_ns).idle) continue;
    for (const Client& other : clients().all()) // when so much has run that this kernel is within the run-ahead
      if (other.closed) consider(other.progress.finish_ns() + client.waiting_duration_ns - options().run_ahead_ns);
  }
  return next_ns;
}

} // namespace fikit::policy
