#include "budget.hpp"

#include <algorithm>
#include <utility>

namespace fikit::policy {
namespace {

constexpr std::int64_t kLongestGuessNs = 10'000'000;
constexpr double kRoundingNs = 1; // what delays that differ by less may be mistaken for

} // namespace

void Budget::noted(const Event& event, const Client& client) {
  Share& share = shares_[client.slot];
  double& level_ns = level_ns_[static_cast<std::size_t>(client.priority)];
  switch (event.kind) {
    case EventKind::client_added:
      accounts_[client.slot].begin(event.time_ns, options().tuning, client.protection.max_slowdown);
      share = Share{};
      copying_[client.slot] = {};
      doubtful_[client.slot] = false;
      see_doubts();
      rows_moved();
      break;
    case EventKind::client_removed:
      doubtful_[client.slot] = false;
      see_doubts();
      rows_moved();
      break;
    case EventKind::copied:
      if (!copying_[client.slot][copy_engine(event.engine)].known()) look_at_gates();
      copying_[client.slot][copy_engine(event.engine)].copied(event.time_ns, event.outlook.idle);
      copied(event, client);
      break;
    case EventKind::launched:
      accounts_[client.slot].launched(event, client, client.protection.max_slowdown);
      see_doubts(client);
      if (event.granted) overran(client, client.overran_ns);
      break;
    case EventKind::drained:
      if (event.waited && event.duration_ns == 0) accounts_[client.slot].waited(event, client.protection.max_slowdown);
      else accounts_[client.slot].seen(client);
      see_doubts(client);
      break;
    case EventKind::running: accounts_[client.slot].seen(client); break;
    case EventKind::waiting:
      if (client.grant_count == 0) share.served_ns = std::max(share.served_ns, level_ns - options().tuning.behind_ns);
      see_served(client);
      put_in_line(client);
      break;
    case EventKind::grant_done:
      copy_done(event);
      overran(client, client.overran_ns);
      if (share.asked_ns != 0) {
        overran(client, std::min(event.time_ns - share.asked_ns - share.guess_ns, options().lease_ns));
        const std::int64_t took_ns = std::clamp<std::int64_t>(event.time_ns - share.asked_ns, 0, kLongestGuessNs);
        share.guess_ns += (took_ns - share.guess_ns) / 4;
        share.asked_ns = 0;
      }
      break;
    default: break;
  }
}

// What it takes beyond what was granted keeps those above from the device, too.
void Budget::overran(const Client& client, std::int64_t ns) {
  if (ns <= 0) return;
  for (const Client& higher : clients().among(clients().above(client.priority)))
    accounts_[higher.slot].overran(static_cast<double>(ns));
}

std::int64_t Budget::length_ns(const Client& client) const {
  return client.waiting_duration_ns >= 0 ? client.waiting_duration_ns : shares_[client.slot].guess_ns;
}

std::int64_t Budget::cautious_ns(const Client& client) const { return std::max(length_ns(client), client.cautious_ns); }

Budget::Ageing Budget::ageing() const {
  const std::int64_t ns = options().ageing_ns;
  const double guarded_ns = options().tuning.guarded_ageing * static_cast<double>(ns);
  Ageing ageing{.ns = ns, .guarded_ns = guarded_ns < static_cast<double>(kNever) ? static_cast<std::int64_t>(guarded_ns) : kNever};
  if (sets().guarded.any()) ageing.guard = clients().at(sets().guarded.first()).priority;
  return ageing;
}

// Has its request waited for so long that it goes next? Who above is overdrawn is seen only where one might.
bool Budget::aged(const Client& client, std::int64_t now_ns, Ageing& ages) const {
  const std::int64_t waited_ns = now_ns - client.waiting_since_ns;
  if (waited_ns < ages.ns) return false;
  see_overdrawn(ages);
  return waited_ns >= ages.of(client);
}

void Budget::see_overdrawn(Ageing& ages) const {
  if (std::exchange(ages.paid_seen, true)) return;
  for (const Client& higher : clients().among(clients().above(ages.guard)))
    if (accounts_[higher.slot].overdrawn()) ages.guard = std::min(ages.guard, higher.priority);
}

void Budget::see_doubts(const Client& client) {
  bool& before = doubtful_[client.slot];
  if (std::exchange(before, accounts_[client.slot].doubtful()) != before) see_doubts();
}

// Whose forecasts are no good has changed, or who there is.
void Budget::see_doubts() {
  bool above = false; // of the level, and of those above it
  bool doubtful = false;
  int level = 0;
  for (Client& client : clients().all()) {
    if (client.priority != level) above = doubtful, level = client.priority;
    doubtful |= !client.measuring && doubtful_[client.slot];
    if (client.patient == (above && !client.measuring)) continue;
    client.patient = above && !client.measuring;
    clients().changed(client);
  }
}

// Closed are all from the first of them on but those that measure, whose work does not count. Where forecasts were no good,
// work that is not known to be over by its end keeps what comes after it from the device.
Budget::Lower Budget::lower_work(std::int64_t now_ns) const {
  for (const Client& client : clients().among(sets().closed & sets().unknown))
    if (client.progress.uncertain_at(now_ns))
      return {.end_ns = now_ns + options().lease_ns, .hold = {.reason = Reason::uncertain, .by = client.id}};
  for (const Client& client : clients().among(sets().closed & sets().granted & sets().patient))
    if (client.late(now_ns))
      return {.end_ns = now_ns + options().lease_ns, .hold = {.reason = Reason::run_ahead, .by = client.id}, .granted = true};
  Lower lower{.end_ns = now_ns, .hold = {}, .granted = (sets().closed & sets().granted).any()};
  const Index::Last& finish = clients().index().finish();
  const std::size_t begin = sets().closed.first();
  if (begin >= finish.size() || finish.best() <= now_ns) return lower;
  const std::size_t last = finish.best_row(begin, finish.size());
  if (last == finish.size() || finish.key(last) <= now_ns) return lower;
  lower.end_ns = finish.key(last);
  lower.hold = {.reason = Reason::run_ahead, .by = clients().at(last).id};
  return lower;
}

bool Budget::goes_before(const Client& a, const Client& b) const {
  if (a.priority != b.priority) return a.priority < b.priority;
  const double served_a = shares_[a.slot].served_ns;
  const double served_b = shares_[b.slot].served_ns;
  return served_a != served_b ? served_a < served_b : a.id < b.id; // whatever order the table is in
}

Budget::Running Budget::running() const {
  Running running{};
  for (const Client& client : clients().among(sets().closed & sets().granted)) {
    if (client.waiting && client.grant_count < kMaxGrants) continue;
    const Client*& least = running[static_cast<std::size_t>(client.priority)];
    if (least == nullptr || goes_before(client, *least)) least = &client;
  }
  return running;
}

bool Budget::goes_after(const Client& client, const Client* running) const {
  if (running == nullptr || running == &client) return false;
  return shares_[client.slot].served_ns > shares_[running->slot].served_ns + options().tuning.behind_ns;
}

// For decisions about who waits, and others of the priority `lowest` and above. again: since the last one, at the same moment,
// lower work was granted, which makes those longer who are waited for, but teaches nothing of those at rest.
Budget::View Budget::view(std::int64_t now_ns, int lowest, bool again) {
  const Rows& waiting = sets().waiting;
  if (waiting.any()) lowest = std::max(lowest, clients().at(waiting.last()).priority);
  const std::int64_t free_ns = std::max({now_ns, clients().index().finish().best(), clients().queue_free_ns()});
  const auto reaction_ns = static_cast<std::int64_t>(options().tuning.reaction_ns);
  std::size_t count = 0;
  for (const Client& client : clients().among(clients().above(lowest))) {
    Above& above = above_[count++];
    above.client = &client;
    above.account = &accounts_[client.slot];
    if (!again || above.account->in_segment()) above.account->expect(now_ns, above.delays);
    above.delay_ns = above.delays.until_ns(free_ns);
    above.at_work = client.progress.busy(now_ns);
    above.uncertain = client.progress.uncertain_at(now_ns);
    above.means = above.account->means(now_ns, above.at_work, client.protection.max_slowdown);
  }
  return {.now_ns = now_ns,
          .free_ns = free_ns,
          .begin_ns = std::max(free_ns, now_ns + reaction_ns),
          .above = std::span(above_).first(count)};
}

Hold Budget::objection(const Above& above, std::int64_t shortest_ns, std::int64_t longest_ns, double less_ns,
                       const View& view) const {
  const Client& higher = *above.client;
  if (above.uncertain) return {.reason = Reason::uncertain, .by = higher.id};
  const Account& account = *above.account;
  const std::int64_t max_delay_ns = higher.protection.max_delay_ns;
  if (max_delay_ns != kNever && account.longest_delay_ns(view.begin_ns + shortest_ns, view.now_ns) > max_delay_ns)
    return {.reason = Reason::does_not_fit, .by = higher.id};
  const double expected_ns = account.doubtful() ? late_delay_ns(above, shortest_ns, view) : marginal_delay_ns(above, shortest_ns, view);
  const double delay_ns = expected_ns - less_ns;
  const bool nothing = delay_ns <= options().tuning.nothing * static_cast<double>(longest_ns);
  if (nothing || above.means.affords(delay_ns, longest_ns)) return {};
  if (above.at_work) return {.reason = Reason::behind, .by = higher.id};
  return {.reason = above.means.covers(delay_ns) ? Reason::does_not_fit : Reason::budget_spent, .by = higher.id};
}

Refusals::Answer Budget::refusal_of(std::int64_t shortest_ns, std::int64_t longest_ns, const View& view) const {
  Refusals::Answer answer;
  for (const Above& above : view.above) {
    if (above.client->priority >= answer.above) continue;
    const Hold hold = objection(above, shortest_ns, view.in_line() ? shortest_ns : longest_ns, kRoundingNs, view);
    if (hold.reason != Reason::none) answer = {.above = above.client->priority, .hold = hold};
  }
  return answer;
}

Refusals::Answer Budget::deep_refusal_of(std::int64_t shortest_ns, std::int64_t longest_ns, const View& view) const {
  Refusals::Answer answer;
  for (const Above& above : view.above)
    if (above.client->priority < answer.above &&
        !lets_go_deep(above, shortest_ns, view.in_line() ? shortest_ns : longest_ns, kRoundingNs, view))
      answer = {.above = above.client->priority, .hold = lower_.hold};
  return answer;
}

Hold Budget::refused_by_class(const Client& client, std::int64_t length, const View& view) {
  const auto ask = [&](std::int64_t shortest_ns, std::int64_t longest_ns) { return refusal_of(shortest_ns, longest_ns, view); };
  const LengthClass number = LengthClass::of(length);
  const Refusals::Answer& octave = refusals_.of_octave(number.octave, ask);
  if (client.priority > octave.above) return octave.hold;
  const Refusals::Answer& eighth = refusals_.of_eighth(number, ask);
  return client.priority > eighth.above ? eighth.hold : Hold{};
}

Hold Budget::obstacle(const Client& client, std::int64_t length, const View& view, bool by_class) {
  if (const Client* higher = keeps_from_gap(client, view.now_ns))
    return {.reason = Reason::does_not_fit, .by = higher->id};
  if (by_class) {
    const Hold refused = refused_by_class(client, length, view);
    if (refused.reason != Reason::none) return refused;
  }
  for (const Above& above : view.above) {
    if (!above.client->outranks(client)) continue;
    const Hold hold = objection(above, length, length, 0, view);
    if (hold.reason != Reason::none) return hold;
  }
  return {};
}

void Budget::spend(const Client& client, std::int64_t length, std::int64_t served_ns, const View& view) {
  for (const Above& higher : view.above)
    if (higher.client->outranks(client))
      accounts_[higher.client->slot].spend(higher.delays.until_ns(view.begin_ns + length), length, view.now_ns);
  Share& share = shares_[client.slot];
  share.served_ns += static_cast<double>(served_ns);
  level_ns_[static_cast<std::size_t>(client.priority)] = share.served_ns;
  see_served(client);
  if (client.waiting_duration_ns < 0) share.asked_ns = view.now_ns;
}

std::int64_t Budget::deepest_ns() const {
  const auto deep_ns = static_cast<std::int64_t>(options().tuning.deep * static_cast<double>(options().run_ahead_ns));
  return std::min(deep_ns, options().lease_ns / 2); // nobody is believed to be at work for much longer without a word
}

double Budget::late_delay_ns(const Above& higher, std::int64_t length, const View& view) const {
  return higher.delays.until_ns(late_ns(view.begin_ns + length, view)) - higher.delays.until_ns(late_ns(view.free_ns, view));
}

bool Budget::may_go_deep(const Client& client, std::int64_t length, const View& view) const {
  return std::all_of(view.above.begin(), view.above.end(), [&](const Above& above) {
    return !above.client->outranks(client) || lets_go_deep(above, length, length, 0, view);
  });
}

bool Budget::lets_go_deep(const Above& above, std::int64_t shortest_ns, std::int64_t longest_ns, double less_ns,
                          const View& view) const {
  const Protection& protection = above.client->protection;
  const std::int64_t end = late_ns(view.begin_ns + shortest_ns, view);
  if (!above.account->foreseeable() || above.account->longest_delay_ns(end, view.now_ns) > protection.max_delay_ns) return false;
  const double delay_ns = late_delay_ns(above, shortest_ns, view) - less_ns;
  return delay_ns <= options().tuning.nothing * static_cast<double>(longest_ns) ||
         above.account->affords(delay_ns, longest_ns, view.now_ns, true, protection.max_slowdown);
}

// Of those above the highest that may be back before the device is free: what is in line by then delays it, and what is granted
// only when that is nearly over would not. Waiting for its work teaches nothing while it is at work.
int Budget::nothing_ahead_below(const View& view) const {
  const double reaction_ns = options().tuning.reaction_ns;
  const std::int64_t later_ns = view.free_ns - static_cast<std::int64_t>(reaction_ns);
  for (const Above& above : view.above) {
    const Client& higher = *above.client;
    if (higher.progress.busy(view.now_ns)) continue;
    const double returns = (above.delay_ns - above.delays.until_ns(later_ns)) / reaction_ns; // how probably
    if (returns <= options().tuning.nothing) continue;
    if (!accounts_[higher.slot].affords_ahead(returns, view.now_ns, higher.protection.max_slowdown)) return higher.priority;
  }
  return 10;
}

bool Budget::may_extend(const Client& client) const {
  const Run& run = client.run;
  constexpr std::int64_t kMost = 4; // then it asks, and the mark of its last launch says how far it is
  return client.closed && !client.waiting && client.grant_count > 0 &&
         client.grants[client.grant_count - 1].duration_ns >= 0 && run.taken && run.launches > 0 &&
         2 * run.launches <= run.next_launches && run.granted_ns < kMost * options().run_ahead_ns;
}

Client* Budget::extended(std::int64_t now_ns) {
  Client* best = nullptr;
  for (Client& client : clients().among(sets().running))
    if (may_extend(client) && (best == nullptr || goes_before(client, *best))) best = &client;
  if (best == nullptr) return nullptr;
  for (const Client& client : clients().among(sets().waiting))
    if (!goes_before(*best, client)) return nullptr;
  if (goes_after(*best, running()[static_cast<std::size_t>(best->priority)])) return nullptr;
  const std::int64_t ahead_ns = lower_work(now_ns).end_ns - now_ns;
  if (ahead_ns > deepest_ns()) return nullptr;
  const View seen = view(now_ns, best->priority);
  refusals_.forget();
  const std::int64_t more_ns = best->run.more_ns();
  if (static_cast<double>(ahead_ns) > options().tuning.near_ns && best->priority > nothing_ahead_below(seen)) return nullptr;
  if (ahead_ns > options().run_ahead_ns && !may_go_deep(*best, more_ns, seen)) return nullptr;
  if (obstacle(*best, more_ns, seen, crowd_).reason != Reason::none) return nullptr;
  spend(*best, more_ns, more_ns, seen);
  return best;
}

std::uint32_t Budget::granted_launches(const Client& client) const {
  if (!shares_[client.slot].whole_run) return 1;
  return std::min(client.run_launches, static_cast<std::uint32_t>(options().tuning.longest_run));
}

// What is left of a run was affordable when it was granted; a higher client may have launched since.
Client* Budget::overstaying(std::int64_t now_ns) {
  for (Client& client : clients().among(sets().running & sets().closed)) {
    const std::int64_t left_ns = client.run.left_ns;
    if (client.run.astray) return &client; // it goes another way than what was granted
    const std::int64_t end_ns = std::max(client.progress.finish_ns(), now_ns + left_ns);
    for (const Client& higher : clients().among(clients().above(client.priority))) {
      const Account& account = accounts_[higher.slot];
      const double delay_ns =
          account.expected_delay_ns(end_ns, now_ns) - account.expected_delay_ns(end_ns - left_ns, now_ns);
      if (!account.affords(delay_ns, left_ns, now_ns, higher.progress.busy(now_ns), higher.protection.max_slowdown))
        return &client;
    }
  }
  return nullptr;
}

// Nothing that stands behind a client's work may go before that is over, or as long as what it waits for does not move: while
// the device is taken for longer than a grant would take to be used.
std::int64_t Budget::behind_until_ns(ClientId id, std::int64_t now_ns) const {
  const Client* higher = clients().find(id);
  if (higher == nullptr) return now_ns;
  const std::int64_t free_ns = clients().device_free_ns(nullptr) - static_cast<std::int64_t>(options().tuning.reaction_ns);
  return std::min({free_ns, higher->progress.dry_ns(), accounts_[higher->slot].steady_until_ns(now_ns)});
}

} // namespace fikit::policy
