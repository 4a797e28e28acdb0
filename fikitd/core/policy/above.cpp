#include "above.hpp"

#include <algorithm>

namespace fikit::policy {
void Above::look(std::int64_t now_ns, int lowest, std::int64_t ahead_ns, bool again) {
  const Rows& waiting = clients_.index().sets().waiting;
  if (waiting.any()) lowest = std::max(lowest, clients_.at(waiting.last()).priority);
  now_ns_ = now_ns;
  free_ns_ = std::max({now_ns, clients_.index().finish().best(), clients_.queue_free_ns()});
  begin_ns_ = std::max(free_ns_, now_ns + static_cast<std::int64_t>(options_.tuning.reaction_ns));
  behind_ = static_cast<double>(ahead_ns) > options_.tuning.near_ns;
  deep_ = ahead_ns > options_.run_ahead_ns;
  if (!again) find(lowest);
  while (count_ > 0 && all_[count_ - 1].client->priority >= lowest) --count_; // all that are below them have gone
  for (Higher& higher : std::span(all_).first(count_)) see(higher, again);
}

void Above::find(int lowest) {
  count_ = 0;
  for (const Client& client : clients_.among(clients_.above(lowest))) {
    all_[count_].client = &client;
    all_[count_++].account = &accounts_[client.slot];
  }
}

void Above::see(Higher& higher, bool again) const {
  const Client& client = *higher.client;
  const Account& account = *higher.account;
  if (!again || account.in_segment()) account.expect(now_ns_, higher.delays);
  higher.delay_ns = higher.delays.until_ns(free_ns_);
  higher.at_work = client.progress.busy(now_ns_);
  higher.lets_go_ns = account.lets_go_ns(begin_ns_, now_ns_, client.protection);
  higher.uncertain = client.progress.uncertain_at(now_ns_);
  higher.means = account.means(now_ns_, higher.at_work, client.protection.max_slowdown);
  higher.longest_ahead_ns = kUnknown;
}

std::int64_t Above::longest_ahead_ns(const Higher& higher) const {
  if (higher.longest_ahead_ns == kUnknown) higher.longest_ahead_ns = find_longest_ahead_ns(higher);
  return higher.longest_ahead_ns;
}

// What is granted now stands in line behind other lower work, and delays a client that is back before it begins; what is granted
// only when that is nearly over would not be there then. Waiting for a client's work teaches nothing while it is at work.
std::int64_t Above::find_longest_ahead_ns(const Higher& higher) const {
  if (higher.at_work) return kNever;
  const Tuning& tuning = options_.tuning;
  const double returned = higher.delays.returned_by(free_ns_, static_cast<std::int64_t>(tuning.reaction_ns)); // how probably
  if (returned <= 0) return kNever;
  // Back in between, on average in the middle, it feels what lasts longer than its slack.
  const std::int64_t unfelt_ns = std::max<std::int64_t>(0, higher.delays.slack_ns() - (free_ns_ - now_ns_) / 2);
  const double felt_ns = std::min(higher.means.worth_ns(tuning.ahead_ns) / returned, static_cast<double>(kHorizonNs));
  return unfelt_ns + static_cast<std::int64_t>(felt_ns);
}

Hold Above::objection(const Client& client, std::int64_t length_ns) const {
  for (const Higher& higher : all()) {
    if (!higher.client->outranks(client)) continue;
    const Hold hold = objection(higher, length_ns, 0);
    if (hold.reason != Reason::none) return hold;
  }
  return {};
}

Hold Above::objection(const Higher& higher, std::int64_t length_ns, double less_ns) const {
  const Client& client = *higher.client;
  if (higher.uncertain) return {.reason = Reason::uncertain, .by = client.id};
  const Account& account = *higher.account;
  const std::int64_t max_delay_ns = client.protection.max_delay_ns;
  if (max_delay_ns != kNever && account.longest_delay_ns(begin_ns_ + length_ns, now_ns_) > max_delay_ns)
    return {.reason = Reason::does_not_fit, .by = client.id};
  if (lets_all_go(higher, length_ns)) return {};
  const double delay_ns = cost(higher, length_ns, account.doubtful()).mean_ns - less_ns;
  const bool nothing = delay_ns <= options_.tuning.nothing * static_cast<double>(length_ns);
  if (nothing || higher.means.affords(delay_ns, length_ns)) return {};
  if (higher.at_work) return {.reason = Reason::behind, .by = client.id};
  return {.reason = higher.means.covers(delay_ns) ? Reason::does_not_fit : Reason::budget_spent, .by = client.id};
}

// What lower work of this length, without any before it, is expected to delay a client, and by how much more what is longer does.
Remaining::At Above::cost(const Higher& higher, std::int64_t length_ns, bool late) const {
  clients_.asked();
  Remaining::At at = higher.delays.at(late ? late_ns(begin_ns_ + length_ns) : begin_ns_ + length_ns);
  at.mean_ns -= late ? higher.delays.until_ns(late_ns(free_ns_)) : higher.delay_ns;
  if (late) at.share *= options_.tuning.late;
  return at;
}

bool Above::at_rest(const Client& client) const {
  return std::ranges::none_of(all(), [&](const Higher& higher) {
    return higher.client->outranks(client) && higher.account->in_segment() && higher.lets_go_ns == 0;
  });
}

bool Above::let_go_ahead(const Client& client, std::int64_t length_ns) const {
  return !behind_ || std::ranges::all_of(all(), [&](const Higher& higher) {
    return !higher.client->outranks(client) || lets_go_ahead(higher, length_ns, 0);
  });
}

bool Above::lets_go_ahead(const Higher& higher, std::int64_t length_ns, double less_ns) const {
  if (lets_all_go(higher, length_ns)) return true;
  if (length_ns > longest_ahead_ns(higher)) return false;
  if (!deep_) return true;
  const Protection& protection = higher.client->protection;
  const std::int64_t end_ns = late_ns(begin_ns_ + length_ns);
  if (!higher.account->foreseeable() || higher.account->longest_delay_ns(end_ns, now_ns_) > protection.max_delay_ns) return false;
  const double delay_ns = cost(higher, length_ns, true).mean_ns - less_ns;
  return delay_ns <= options_.tuning.nothing * static_cast<double>(length_ns) ||
         higher.account->affords(delay_ns, length_ns, now_ns_, true, protection.max_slowdown);
}

bool Above::refuses(const Client& client, std::int64_t length_ns) const {
  return std::ranges::any_of(all(), [&](const Higher& higher) {
    return higher.client->outranks(client) && (objection(higher, length_ns, kRoundingNs).reason != Reason::none ||
                                               (behind_ && !lets_go_ahead(higher, length_ns, kRoundingNs)));
  });
}

void Above::spend(const Client& client, std::int64_t length_ns) {
  for (const Higher& higher : all())
    if (higher.client->outranks(client))
      higher.account->spend(higher.delays.until_ns(begin_ns_ + length_ns), length_ns, now_ns_, lets_all_go(higher, length_ns));
}

} // namespace fikit::policy
