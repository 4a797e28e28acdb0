#include "budget.hpp"

#include <algorithm>

namespace fikit::policy {
namespace {

constexpr std::int64_t kReactionNs = 15'000; // from a decision to the launch that it grants
constexpr double kBehindNs = 1e6;            // a client that comes back is at most so far behind its equals
constexpr std::int64_t kLongestGuessNs = 10'000'000;

} // namespace

void Budget::noted(const Event& event, const Client& client) {
  Share& share = shares_[client.slot];
  double& level_ns = level_ns_[static_cast<std::size_t>(client.priority)];
  switch (event.kind) {
    case EventKind::client_added:
      accounts_[client.slot].begin(event.time_ns);
      share = Share{};
      break;
    case EventKind::launched: accounts_[client.slot].launched(event, client, client.protection.max_slowdown); break;
    case EventKind::drained:
      if (event.waited && event.duration_ns == 0) accounts_[client.slot].waited(event, client.protection.max_slowdown);
      break;
    case EventKind::waiting: share.served_ns = std::max(share.served_ns, level_ns - kBehindNs); break;
    case EventKind::grant_done:
      if (share.asked_ns != 0) {
        const std::int64_t took_ns = std::clamp<std::int64_t>(event.time_ns - share.asked_ns, 0, kLongestGuessNs);
        share.guess_ns += (took_ns - share.guess_ns) / 4;
        share.asked_ns = 0;
      }
      break;
    default: break;
  }
}

std::int64_t Budget::length_ns(const Client& client) const {
  return client.waiting_duration_ns >= 0 ? client.waiting_duration_ns : shares_[client.slot].guess_ns;
}

Budget::Lower Budget::lower_work(std::int64_t now_ns) const {
  Lower lower{.end_ns = now_ns, .hold = {}};
  for (const Client& client : clients().all()) {
    if (!client.closed) continue;
    if (client.progress.uncertain_at(now_ns))
      return {.end_ns = now_ns + options().lease_ns, .hold = {.reason = Reason::uncertain, .by = client.id}};
    if (client.progress.finish_ns() <= lower.end_ns) continue;
    lower = {.end_ns = client.progress.finish_ns(), .hold = {.reason = Reason::run_ahead, .by = client.id}};
  }
  return lower;
}

bool Budget::goes_before(const Client& a, const Client& b) const {
  if (a.priority != b.priority) return a.priority < b.priority;
  return shares_[a.slot].served_ns < shares_[b.slot].served_ns;
}

Hold Budget::obstacle(const Client& client, std::int64_t now_ns) const {
  if (const Client* higher = keeps_from_gap(client, now_ns)) return {.reason = Reason::does_not_fit, .by = higher->id};
  const std::int64_t length = length_ns(client);
  const std::int64_t free_ns = std::max(clients().device_free_ns(nullptr), now_ns);
  const std::int64_t end_ns = std::max(free_ns, now_ns + kReactionNs) + length;
  for (const Client& higher : clients().all()) {
    if (!higher.outranks(client)) continue;
    if (higher.progress.uncertain_at(now_ns)) return {.reason = Reason::uncertain, .by = higher.id};
    const Account& account = accounts_[higher.slot];
    if (account.longest_delay_ns(end_ns, now_ns) > higher.protection.max_delay_ns)
      return {.reason = Reason::does_not_fit, .by = higher.id};
    const double delay_ns = account.expected_delay_ns(end_ns, now_ns) - account.expected_delay_ns(free_ns, now_ns);
    const bool nothing = delay_ns <= 0.001 * static_cast<double>(length);
    const bool at_work = higher.progress.busy(now_ns);
    if (nothing || account.affords(delay_ns, length, at_work, higher.protection.max_slowdown)) continue;
    if (at_work) return {.reason = Reason::behind, .by = higher.id};
    return {.reason = account.covers(delay_ns) ? Reason::does_not_fit : Reason::budget_spent, .by = higher.id};
  }
  return {};
}

void Budget::spend(const Client& client, std::int64_t now_ns) {
  const std::int64_t length = length_ns(client);
  const std::int64_t free_ns = std::max(clients().device_free_ns(nullptr), now_ns);
  const std::int64_t end_ns = std::max(free_ns, now_ns + kReactionNs) + length;
  for (const Client& higher : clients().all()) {
    if (!higher.outranks(client)) continue;
    Account& account = accounts_[higher.slot];
    account.spend(account.expected_delay_ns(end_ns, now_ns) - account.expected_delay_ns(free_ns, now_ns), length);
  }
  Share& share = shares_[client.slot];
  share.served_ns += static_cast<double>(length);
  level_ns_[static_cast<std::size_t>(client.priority)] = share.served_ns;
  if (client.waiting_duration_ns < 0) share.asked_ns = now_ns;
}

Client* Budget::choose(std::int64_t now_ns) {
  const Lower lower = lower_work(now_ns);
  const std::int64_t ahead_ns = lower.end_ns - now_ns;
  if (ahead_ns > options().run_ahead_ns) {
    hold_waiting([&](const Client&) { return lower.hold; });
    return nullptr;
  }
  Client* best = nullptr;
  for (Client& client : clients().all()) {
    if (!client.waiting || (best != nullptr && !goes_before(client, *best))) continue;
    const bool alone = ahead_ns == 0 && client.grant_count == 0;
    const bool aged = now_ns - client.waiting_since_ns >= options().ageing_ns;
    if (client.grant_count == kMaxGrants) client.held = {.reason = Reason::run_ahead, .by = client.id};
    else if (client.waiting_duration_ns < 0 && !alone)
      client.held = {.reason = Reason::unknown, .by = ahead_ns > 0 ? lower.hold.by : client.id};
    else client.held = aged ? Hold{} : obstacle(client, now_ns);
    if (client.held.reason == Reason::none) best = &client;
  }
  if (best != nullptr) spend(*best, now_ns);
  return best;
}

std::int64_t Budget::next_change_ns(std::int64_t now_ns) const {
  // Expected delays change as time goes by without an event: look again when they may have become affordable.
  constexpr std::int64_t kAgainNs = 50'000;
  constexpr std::int64_t kAgainShare = 16;
  std::int64_t longest_ns = 0;
  std::int64_t next_ns = next_end_ns(now_ns);
  for (const Client& client : clients().all())
    if (client.waiting) longest_ns = std::max(longest_ns, now_ns - client.waiting_since_ns);
  const std::int64_t ahead_ns = lower_work(now_ns).end_ns - options().run_ahead_ns;
  if (ahead_ns > now_ns) next_ns = std::min(next_ns, ahead_ns);
  return std::min(next_ns, now_ns + std::max(kAgainNs, longest_ns / kAgainShare));
}

} // namespace fikit::policy
