// Who of those that wait goes next, whose run goes on, and when to ask again.
#include <algorithm>
#include <span>

#include "budget.hpp"

namespace fikit::policy {

Client* Budget::choose(std::int64_t now_ns) {
  see_refusals(now_ns);
  begin_choice(now_ns);
  if (choice_.ahead_ns > deepest_ns()) {
    hold(sets().waiting, choice_.lower.hold);
    return goes(nullptr);
  }
  see_running();
  above_.look(now_ns, 0, choice_.ahead_ns, choice_.chosen != nullptr);
  if (!choice_.crowd) return goes(first_of_few());
  Client* first = first_of_all();
  return goes(first != nullptr ? first : first_of_crowd());
}

void Budget::begin_choice(std::int64_t now_ns) {
  ageing_.begin(now_ns);
  choice_.lower = lower_work(now_ns);
  choice_.ahead_ns = choice_.lower.end_ns - now_ns;
  choice_.crowd = sets().waiting.count() >= kCrowd;
  choice_.asked = nullptr;
}

// Since the last choice of this decision only whom that chose was granted something.
void Budget::see_running() {
  const Client* chosen = choice_.chosen;
  if (chosen == nullptr) {
    choice_.running = choice_.lower.granted ? running() : Running{};
    return;
  }
  const Client*& least = choice_.running[static_cast<std::size_t>(chosen->priority)];
  if (least == nullptr || queue_.goes_before(*chosen, *least)) least = chosen;
}

// For whose sake lower work has stood at the gate since the last decision.
void Budget::see_refusals(std::int64_t now_ns) {
  const auto waited_ns = static_cast<double>(now_ns - refused_for_.since_ns);
  for (const std::size_t slot : std::span(refused_for_.slots).first(refused_for_.count)) accounts_[slot].refused(waited_ns);
  refused_for_.since_ns = now_ns;
  refused_for_.count = 0;
}

// And does from now on.
void Budget::note_refusals() {
  told().each(sets().waiting, [&](const Rows&, const Hold& why) {
    const bool refused = why.reason == Reason::behind || why.reason == Reason::does_not_fit || why.reason == Reason::budget_spent;
    const Client* higher = refused ? clients().find(why.by) : nullptr;
    const auto known = std::span(refused_for_.slots).first(refused_for_.count);
    if (higher != nullptr && std::ranges::find(known, higher->slot) == known.end())
      refused_for_.slots[refused_for_.count++] = higher->slot;
  });
}

// Nobody, or it: then everything is asked anew, of those that are left.
Client* Budget::goes(Client* client) {
  choice_.chosen = client;
  if (client == nullptr) {
    note_refusals();
    return nullptr;
  }
  lengthen(*client);
  const Launches& granted = granted_[client->slot];
  spend(*client, asked_ns(*client, granted), granted.launches > 1 ? granted.work_ns : length_ns(*client));
  return client;
}

// While all those above are at rest, to its long run, if that may go, too. Were somebody at work, his next launch would end it.
void Budget::lengthen(const Client& client) {
  Launches& granted = granted_[client.slot];
  const Launches& longer = client.long_run;
  if (longer.launches <= granted.launches || options().tuning.longest_run <= 1 || !above_.at_rest(client)) return;
  if (obstacle(client, longer.work_ns).reason == Reason::none && above_.let_go_ahead(client, longer.work_ns)) granted = longer;
}

Client* Budget::first_of_few() {
  Client* best = nullptr;
  for (Client& client : clients().among(sets().waiting)) {
    if (best != nullptr && best->priority != client.priority) break; // and all behind it
    if (best != nullptr && !queue_.goes_before(client, *best)) continue;
    const Hold why = answer(client);
    hold(client, why);
    if (why.reason == Reason::none) best = &client;
  }
  return best;
}

// Of the highest level that waits, who has had least: if it may go, nothing need be asked about the others.
Client* Budget::first_of_all() {
  const std::size_t row = queue_.first(clients().at(sets().waiting.first()).priority);
  Client& first = clients().at(row);
  const Hold why = answer(first);
  if (why.reason == Reason::none) return &first;
  choice_.asked = &first, choice_.answered = why; // it need not be asked again
  return nullptr;
}

// Why it may not go; Reason::none when it may.
Hold Budget::answer(const Client& client) {
  const bool due = ageing_.due(client, above_.now_ns());
  const Client* equal = choice_.running[static_cast<std::size_t>(client.priority)];
  if (!due && queue_.goes_after(client, equal)) return {.reason = Reason::turn, .by = equal->id};
  if (client.grant_count == kMaxGrants) return {.reason = Reason::run_ahead, .by = client.id};
  if (client.waiting_duration_ns < 0 && (choice_.ahead_ns != 0 || client.grant_count != 0))
    return {.reason = Reason::unknown, .by = choice_.ahead_ns > 0 ? choice_.lower.hold.by : client.id};
  return refused(client, due);
}

Hold Budget::refused(const Client& client, bool due) {
  const auto most = static_cast<std::uint32_t>(options().tuning.longest_run);
  const bool whole_run = client.run_launches > 1 && most > 1 && obstacle(client, client.run_ns).reason == Reason::none;
  granted_[client.slot] = whole_run ? Launches{.launches = std::min(client.run_launches, most), .work_ns = client.run_ns} : only_one(client);
  const Hold hold = whole_run || due ? Hold{} : obstacle(client, cautious_ns(client));
  if (hold.reason != Reason::none) return hold;
  return above_.let_go_ahead(client, asked_ns(client, granted_[client.slot])) ? Hold{} : choice_.lower.hold;
}

Hold Budget::obstacle(const Client& client, std::int64_t length_ns) {
  if (const Client* higher = keeps_from_gap(client, above_.now_ns())) return {.reason = Reason::does_not_fit, .by = higher->id};
  return above_.objection(client, length_ns);
}

bool Budget::may_extend(const Client& client, std::int64_t now_ns) const {
  const Run& run = client.run;
  const bool under_way = client.closed && !client.waiting && client.grant_count > 0 &&
                         client.grants[client.grant_count - 1].duration_ns >= 0 && run.taken && run.launches > 0 &&
                         (run.half_granted(run.next) || run.half_granted(run.long_next));
  // After so much it asks, and the mark of its last launch says how far it is. That matters less where nothing is refused.
  const std::int64_t most_ns = 4 * options().run_ahead_ns;
  return under_way && (run.granted_ns < most_ns || (run.granted_ns < 4 * most_ns && all_at_ease(client, now_ns)));
}

bool Budget::all_at_ease(const Client& client, std::int64_t now_ns) const {
  for (const Client& higher : clients().among(clients().above(client.priority)))
    if (!accounts_[higher.slot].at_ease(now_ns, higher.protection)) return false;
  return true;
}

bool Budget::may_become_longer(const Client& client, const Launches& to) {
  if (!client.run.half_granted(to)) return false;
  const std::int64_t more_ns = client.run.more_ns(to);
  return above_.let_go_ahead(client, more_ns) && obstacle(client, more_ns).reason == Reason::none;
}

Budget::Extension Budget::extended(std::int64_t now_ns) {
  Client* best = nullptr;
  for (Client& client : clients().among(sets().running))
    if (may_extend(client, now_ns) && (best == nullptr || queue_.goes_before(client, *best))) best = &client;
  if (best == nullptr) return {};
  for (const Client& client : clients().among(sets().waiting | sets().elsewhere))
    if (!queue_.goes_before(*best, client)) return {};
  if (queue_.goes_after(*best, running()[static_cast<std::size_t>(best->priority)])) return {};
  const std::int64_t ahead_ns = lower_work(now_ns).end_ns - now_ns;
  if (ahead_ns > deepest_ns()) return {};
  above_.look(now_ns, best->priority, ahead_ns, false);
  const Run& run = best->run;
  const bool far = run.long_next.launches > run.next.launches && above_.at_rest(*best) && may_become_longer(*best, run.long_next);
  if (!far && !may_become_longer(*best, run.next)) return {};
  const Launches& to = far ? run.long_next : run.next;
  spend(*best, run.more_ns(to), run.more_ns(to));
  return {.client = best, .to = to};
}

// Nothing that stands behind a client's work may go before that is over, or as long as what it waits for does not move: while
// the device is taken for longer than a grant would take to be used.
std::int64_t Budget::behind_until_ns(ClientId id, std::int64_t now_ns) const {
  const Client* higher = clients().find(id);
  if (higher == nullptr) return now_ns;
  const std::int64_t free_ns = clients().device_free_ns(nullptr) - static_cast<std::int64_t>(options().tuning.reaction_ns);
  return std::min({free_ns, higher->progress.dry_ns(), accounts_[higher->slot].steady_until_ns(now_ns)});
}

// The next moment from which on a delay is felt by fewer of the requests of someone above: they come from outside, and then none
// is there.
std::int64_t Budget::nobody_waits_from_ns(std::int64_t now_ns) const {
  std::int64_t next_ns = kNever;
  const int lowest = clients().at(clients().index().at_gate().last()).priority;
  for (const Client& higher : clients().among(clients().above(lowest)))
    if (const std::int64_t t_ns = accounts_[higher.slot].nobody_waits_from_ns(); t_ns > now_ns) next_ns = std::min(next_ns, t_ns);
  return next_ns;
}

std::int64_t Budget::next_change_ns(std::int64_t now_ns) const {
  // Expected delays change as time goes by without an event: look again when they may have become affordable.
  constexpr std::int64_t kAgainNs = 50'000;
  constexpr std::int64_t kAgainShare = 16;
  const std::int64_t longest_ns = std::max<std::int64_t>(0, now_ns - clients().index().since().best());
  std::int64_t next_ns = std::min(next_end_ns(now_ns), ageing_.next_ns(now_ns));
  next_ns = std::min(next_ns, nobody_waits_from_ns(now_ns));
  std::int64_t steady_ns = sets().copying.any() ? now_ns : kNever; // for all that wait
  told().each(sets().waiting, [&](const Rows&, const Hold& why) {
    steady_ns = std::min(steady_ns, why.reason == Reason::behind ? behind_until_ns(why.by, now_ns) : now_ns);
  });
  for (const std::int64_t less_ns : {options().run_ahead_ns, static_cast<std::int64_t>(options().tuning.near_ns)})
    if (const std::int64_t t_ns = choice_.lower.end_ns - less_ns; t_ns > now_ns) next_ns = std::min(next_ns, t_ns);
  return std::min(next_ns, std::max(steady_ns, now_ns + std::max(kAgainNs, longest_ns / kAgainShare)));
}

} // namespace fikit::policy
