#include "budget.hpp"

#include <algorithm>

namespace fikit::policy::budget {

void Budget::learn(const LevelPolicy& higher) {
  LevelPolicy::learn(higher);
  const auto& other = static_cast<const Budget&>(higher);
  budgets_ = other.budgets_;
  for (SlowdownBudget& budget : budgets_) budget.use(options().tuning);
  audits_ = other.audits_;
  guesses_ = other.guesses_;
  keepers_ = other.keepers_, suspects_ = other.suspects_, any_keeper_ = other.any_keeper_;
  unconfirmed_ = other.unconfirmed_;
  shares_ = other.shares_;
  holder_ = other.holder_, busy_until_ns_ = other.busy_until_ns_;
  copies_.learn(other.copies_);
}

void Budget::noted(const Event& event, const Client& client) {
  SlowdownBudget& budget = budgets_[client.slot];
  switch (event.kind) {
    case EventKind::client_added:
      came(client, event.time_ns);
      see_doubts();
      break;
    case EventKind::client_removed:
      shares_.remove(client);
      unconfirmed_.begin(client.slot);
      suspects_.gone(client.slot);
      suspects_.higher_gone(client.id);
      set_keeper(client, false);
      break;
    case EventKind::profiled: budget.profiled(event.outlook.slack); break;
    case EventKind::copied:
      if (copies_.copied(event, client)) look_at_gates();
      if (const Copies::Low& lower = copies_.low(event.engine);
          client.priority < lower.priority && event.time_ns < lower.over_ns) // the copy may stand behind the lower client's
        budget.copy_stands(event.time_ns, lower.end_ns);
      break;
    case EventKind::launched:
      budget.launched(event, client);
      if (Guess& guess = guesses_[client.slot]; guess.asked_ns != 0 && guess.launched_ns == 0) guess.launched_ns = event.time_ns;
      if (event.granted) {
        unconfirmed_.launches_granted(client.slot, event.request, event.time_ns); // also where the client's host has waited since the grant
        overran(client, client.overran_ns);
      } else if (!client.measuring && !client.closed) {
        takes_device(client, event.time_ns, event.duration_ns + event.outlook.in_line_ns);
      }
      break;
    case EventKind::drained:
      if (event.duration_ns == 0) confirmed(event, client);
      if (event.waited && event.duration_ns == 0) {
        waited(event, client);
        see_doubts();
      } else {
        budget.seen(client);
        if (event.duration_ns >= 0) budget.told();
      }
      if (event.duration_ns >= 0) see_rest(event.time_ns);
      if (event.duration_ns == 0) see_guess(event, client);
      break;
    case EventKind::running: budget.seen(client); break;
    case EventKind::host_stands: host_stands(event, client); break;
    case EventKind::waiting:
      if (client.grant_count == 0) shares_.comes_back(client, clients(), event.time_ns, options().run_ahead_ns);
      break;
    case EventKind::grant_done:
      confirmed(event, client);
      copy_done(event);
      see_rest(event.time_ns);
      overran(client, client.overran_ns);
      see_guess(event, client);
      break;
    default: break;
  }
}

void Budget::came(const Client& client, std::int64_t now_ns) {
  budgets_[client.slot].begin(now_ns, options().tuning, client.protection.max_slowdown);
  audits_[client.slot] = {};
  set_keeper(client, false);
  guesses_[client.slot] = {};
  shares_.add(client);
  copies_.came(client);
  unconfirmed_.begin(client.slot);
  for (const Client& lower : clients().span()) // an open gate has let work pass
    if (client.outranks(lower) && !lower.closed && !lower.at_rest) unconfirmed_.left_over(lower.slot, now_ns);
}

void Budget::waited(const Event& event, const Client& client) {
  SlowdownBudget& budget = budgets_[client.slot];
  const bool stopped = budget.stopped();
  budget.waited(event, unconfirmed_.below(clients(), client, event.time_ns), audits_[client.slot]);
  see_stop(client, stopped, event.time_ns);
  set_keeper(client, budget.keeps_all());
}

void Budget::see_stop(const Client& client, bool stopped, std::int64_t now_ns) {
  SlowdownBudget& budget = budgets_[client.slot];
  bool turn = false;
  if (budget.stopped()) {
    if (stopped) return;
    ClientSet below;
    for (const Client& lower : clients().span())
      if (client.outranks(lower)) below.set(lower.slot, true);
    suspects_.stops(client.id, below, now_ns);
  } else {
    if (!budget.believed()) suspects_.higher_gone(client.id); // it was late by itself
    turn = stopped ? suspects_.goes_on(client.id, now_ns) : suspects_.waited(client.id, now_ns);
  }
  if (turn) budget.forget_fears();
}

void Budget::set_keeper(const Client& client, bool keeps) {
  keepers_.set(client.slot, keeps);
  any_keeper_ = keepers_.any() || suspects_.any();
}

void Budget::noted_done_below(const Event& event) {
  confirmed(event, *clients().find(event.client));
  copy_done(event);
}

// Lower work is over, by its client's report.
void Budget::confirmed(const Event& event, const Client& client) {
  if (event.kind == EventKind::grant_done) unconfirmed_.done(client.slot, event.request, event.time_ns);
  else unconfirmed_.all_done(client.slot);
}

// The device serves one client after the other, and each change between clients takes time, which the client table does not reckon with.
void Budget::takes_device(const Client& client, std::int64_t t_ns, std::int64_t length_ns) {
  const std::int64_t change_ns = holder_.id == 0 ? 0 : switch_to_ns(client);
  busy_until_ns_ = std::max(busy_until_ns_, t_ns) + change_ns + std::clamp<std::int64_t>(length_ns, 0, options().lease_ns);
  holder_ = {.id = client.id, .overlaps = client.overlaps};
}

// The device is busy for no longer than the work takes that is not known to be complete.
void Budget::see_rest(std::int64_t t_ns) {
  std::int64_t left_ns = 0;
  bool turns = false;
  for (const Client& client : clients().span()) {
    left_ns += client.backlog.takes_ns();
    turns |= !client.overlaps;
  }
  busy_until_ns_ = std::min(busy_until_ns_, t_ns + left_ns + (turns && left_ns > 0 ? switch_ns() : 0));
}

// What went beside a host that stood still cost it nothing. What is left of that when the host goes on may.
void Budget::host_stands(const Event& event, const Client& client) {
  SlowdownBudget& budget = budgets_[client.slot];
  if (event.stands) return budget.stops_at(event.since_ns);
  std::int64_t left_ns = 0;
  for (const Client& lower : clients().span())
    if (client.outranks(lower)) left_ns += lower.backlog.takes_ns();
  budget.goes_on(event.time_ns, std::min(left_ns, options().lease_ns));
}

// Lower work that takes longer than was granted keeps the clients above it from the device, too.
void Budget::overran(const Client& client, std::int64_t ns) {
  if (ns <= 0) return;
  for (const Client& higher : clients().span())
    if (higher.outranks(client) && !higher.stands) budgets_[higher.slot].overran(ns);
}

// If the client's kernel of unknown length is complete, its next one is guessed to take about as long.
void Budget::see_guess(const Event& event, const Client& client) {
  constexpr std::int64_t kLongestGuessNs = 10'000'000;
  constexpr std::int64_t kClearlyNs = 1'000'000; // a turn of another client may lie in between
  Guess& guess = guesses_[client.slot];
  if (guess.asked_ns == 0) return;
  overran(client, std::min(event.time_ns - guess.asked_ns - guess.length_ns, options().lease_ns));
  const std::int64_t since_ns = std::max(guess.asked_ns, guess.launched_ns); // the host may have needed time to launch it
  const std::int64_t took_ns = std::clamp<std::int64_t>(event.time_ns - since_ns, 0, options().lease_ns);
  if (took_ns > std::max(2 * guess.length_ns, guess.length_ns + kClearlyNs)) guess.fear.took(took_ns, event.time_ns);
  guess.length_ns += (std::min(took_ns, kLongestGuessNs) - guess.length_ns) / 4;
  guess.asked_ns = 0;
}

// The end of the last one was never reported: it may have taken as long as others have waited for it.
void Budget::guess_begins(const Client& client, std::int64_t now_ns) {
  Guess& guess = guesses_[client.slot];
  if (guess.asked_ns != 0 && guess.launched_ns != 0) guess.fear.took(std::min(now_ns - guess.asked_ns, options().lease_ns), now_ns);
  guess.asked_ns = now_ns;
  guess.launched_ns = 0;
}

// Another level's policy grants, after it has asked the clients above its level.
void Budget::noted_given(const Given& given, const Client& client, std::int64_t now_ns) {
  if (given.kind == Given::Kind::copy) {
    grant_copy({.client = client, .engine = given.engine, .length_ns = given.granted.work_ns}, given.request, now_ns);
  } else if (given.kind != Given::Kind::end_of_run) {
    look(now_ns, client.priority);
    spend(client, given.charged_ns, given.charged_ns);
    if (given.kind == Given::Kind::launches) unconfirmed_.launches_granted(client.slot, given.request, now_ns);
    if (given.granted.work_ns < 0) guess_begins(client, now_ns);
  }
}

// From now on cost() is about this moment, and about lower work of the priority `lowest` and above.
void Budget::look(std::int64_t now_ns, int lowest) {
  now_ns_ = now_ns;
  lower_ = lower_work(now_ns);
  free_ns_ = std::max({now_ns, clients().index().finish().best(), clients().queue_free_ns(), busy_until_ns_});
  above_count_ = 0;
  for (const Client& client : clients().span()) {
    if (client.measuring || client.priority >= lowest) continue;
    above_[above_count_].client = &client;
    see(above_[above_count_++]);
  }
}

void Budget::see(Higher& higher) const {
  const Client& client = *higher.client;
  const SlowdownBudget& budget = budgets_[client.slot];
  budget.forecast(now_ns_, higher.forecast);
  higher.stands = stands(client, now_ns_);
  higher.at_work = client.progress.busy(now_ns_);
  higher.calibration = budget.calibration(now_ns_);
  higher.unforeseen = budget.unforeseen(now_ns_, higher.at_work, switch_ns() > 0);
  higher.affected = budget.affected(now_ns_);
  higher.covers_ns = budget.covers_ns(now_ns_);
  higher.full = budget.full(now_ns_);
  higher.worth = budget.worth(now_ns_, higher.at_work);
  const std::int64_t back_ns = switch_to_ns(client);
  higher.changes = back_ns > 0;
  higher.delay_ns = higher.forecast.delay_ns({.end_ns = free_ns_, .back_ns = back_ns});
  higher.free_ns = higher.forecast.free_ns(now_ns_, now_ns_ + options().lease_ns);
}

// The first piece of lower work after a client's own opens a visit: it pays the switch to it, the one back, and the delay that comes
// unforeseen of a visit. Lower work behind that continues the visit and pays none of them.
Budget::Cost Budget::cost(const Higher& higher, const Client& client, std::int64_t length_ns) const {
  Cost cost;
  cost.there_ns = switch_to_ns(client);
  cost.back_ns = switch_ns(client, *higher.client);
  cost.opens = cost.back_ns > 0 && !higher.changes;
  const std::int64_t reaction_ns = now_ns_ + static_cast<std::int64_t>(options().tuning.reaction_ns);
  cost.fill = {.end_ns = std::max(free_ns_, reaction_ns) + cost.there_ns + length_ns, .back_ns = cost.back_ns};
  cost.all_ns = higher.forecast.delay_ns(cost.fill);
  cost.delay_ns = cost.all_ns - higher.delay_ns;
  const SlowdownBudget::Unforeseen& unforeseen = higher.unforeseen[cost.back_ns > 0 ? 1 : 0];
  cost.share = unforeseen.share;
  const double unforeseen_ns = unforeseen.per_ns * static_cast<double>(length_ns) + (cost.opens ? unforeseen.per_visit_ns : 0);
  cost.expected_ns = higher.affected * (higher.calibration_of(client) * cost.delay_ns + unforeseen_ns);
  cost.worst_ns = higher.forecast.worst_ns(cost.fill);
  cost.gain_ns = static_cast<double>(length_ns);
  // While the higher client is at rest, lower work opens the device for more lower work. One at work takes it back with its next kernel.
  if (cost.opens && !budgets_[higher.client->slot].in_segment())
    cost.gain_ns = std::max(cost.gain_ns, higher.free_ns - static_cast<double>(cost.there_ns));
  return cost;
}

Budget::Longer Budget::longer(const Client& client, const Launches& piece) const {
  if (client.waiting_duration_ns < 0) {
    const Guess& guess = guesses_[client.slot];
    return {.feared_ns = std::max<std::int64_t>(0, guess.fear.feared_ns(now_ns_) - guess.length_ns),
            .longest_ns = std::max<std::int64_t>(0, guess.fear.longest_ns(now_ns_) - guess.length_ns)};
  }
  const bool alone = piece.launches == 1;
  const std::int64_t reckoned_ns = alone ? asked_ns(client, piece) : client.waiting_duration_ns;
  return {.feared_ns = std::max<std::int64_t>(0, client.feared_ns - reckoned_ns),
          .longest_ns = std::max(alone ? 0 : client.run_longer_ns, client.longest_ns - reckoned_ns)};
}

WaitReason Budget::objection(const Client& client, std::int64_t length_ns, const Longer& longer, std::int64_t run_ns) const {
  if (const Client* higher = keeps_from_gap(client, now_ns_)) return {.reason = Reason::does_not_fit, .by = higher->id};
  for (const Higher& higher : above()) {
    if (!higher.client->outranks(client)) continue;
    const WaitReason hold = objection(higher, client, length_ns, longer, run_ns);
    if (hold.reason != Reason::none) return hold;
  }
  return {};
}

WaitReason Budget::objection(const Higher& higher, const Client& client, std::int64_t length_ns, const Longer& longer,
                             std::int64_t run_ns) const {
  const Client& above = *higher.client;
  // When it goes on it must not find more than that.
  if (higher.stands) return ahead_ns() > options().run_ahead_ns ? lower_.hold : WaitReason{};
  if (above.progress.uncertain_at(now_ns_)) return {.reason = Reason::uncertain, .by = above.id};
  clients().asked();
  Cost cost = this->cost(higher, client, length_ns);
  const std::int64_t max_delay_ns = above.protection.max_delay_ns;
  const auto later = [&cost](std::int64_t ns) { return Fill{.end_ns = cost.fill.end_ns + ns, .back_ns = cost.fill.back_ns}; };
  if (max_delay_ns != kNever) {
    const std::int64_t worst_ns = higher.forecast.worst_ns(later(longer.longest_ns));
    const std::int64_t switches_ns = std::min(worst_ns, 2 * cost.back_ns); // any lower work costs two: max_delay leaves them out
    if (worst_ns - switches_ns > max_delay_ns) return {.reason = Reason::does_not_fit, .by = above.id};
  }
  // A piece that is over before another grant can follow it (a memset) opens a visit only for its run: the run must be worth the visit.
  if (run_ns > length_ns && cost.opens && static_cast<double>(length_ns) <= options().tuning.reaction_ns)
    cost = this->cost(higher, client, run_ns);
  const bool foreseeable = cost.share <= options().tuning.surprise || higher.covers_ns > 0;
  const bool cheap = cost.expected_ns <= options().tuning.cheap * static_cast<double>(length_ns);
  // A forecast has eight times, which cannot tell so short a delay from none; a client with max_slowdown 0 has no budget that would pay.
  constexpr double kNothing = 0.001;
  const auto nothing = [&above](std::int64_t ns) { return above.protection.max_slowdown > 0 ? 0 : kNothing * static_cast<double>(ns); };
  // The delay by a rare launch of a known kernel may exceed what a full budget covers: budget that is not spent then is lost, and the debt keeps the next one away.
  if (longer.feared_ns > 0 && (client.waiting_duration_ns < 0 || !higher.full)) {
    const Fill feared = later(longer.feared_ns);
    const double delay_ns = higher.forecast.delay_ns(feared) - higher.delay_ns;
    if ((delay_ns > nothing(length_ns + longer.feared_ns) || !foreseeable) &&
        static_cast<double>(higher.forecast.worst_ns(feared)) > higher.covers_ns)
      return {.reason = Reason::budget_spent, .by = above.id};
  }
  const double nothing_ns = nothing(length_ns);
  if (cost.delay_ns <= nothing_ns && foreseeable && cheap) return waits_for_device(higher, client, length_ns, cost) ? lower_.hold : WaitReason{};
  // Hard: the budget must cover the worst delay that may come of it.
  if ((cost.delay_ns > 0 || !foreseeable) && static_cast<double>(cost.worst_ns) > higher.covers_ns)
    return {.reason = Reason::budget_spent, .by = above.id};
  // Soft: the lower client's gain must be worth the delay that is expected.
  if (cost.expected_ns > higher.worth * cost.gain_ns)
    return {.reason = higher.at_work ? Reason::behind : Reason::does_not_fit, .by = above.id};
  return waits_for_device(higher, client, length_ns, cost) ? lower_.hold : WaitReason{};
}

// Should lower work that would stand behind other lower work wait for the device? If it goes later it gains the same, and costs nothing
// if the higher client is back before. So it goes ahead only if the higher client would not feel it, and far ahead only if hardly any
// delay is expected of it.
bool Budget::waits_for_device(const Higher& higher, const Client& client, std::int64_t length_ns, const Cost& cost) const {
  const Tuning& tuning = options().tuning;
  if (static_cast<double>(ahead_ns()) <= near_ns(higher, client)) return false;
  if (ahead_ns() > options().run_ahead_ns && cost.expected_ns > tuning.surprise * static_cast<double>(length_ns)) return true;
  // In slices queued lower work takes the device, between two kernels, from a client that comes back early: two switches each time.
  if (cost.back_ns > 0 && !budgets_[higher.client->slot].in_segment() && cost.share > 4 * tuning.surprise) return true;
  if (higher.at_work) return false;
  const std::int64_t felt_ns = length_ns - std::max<std::int64_t>(0, higher.forecast.slack_ns() - ahead_ns() / 2);
  return felt_ns > 0 && higher.forecast.back_by(free_ns_) > 0;
}

// How much lower work may be left on the device when the next piece is granted.
double Budget::near_ns(const Higher& higher, const Client& client) const {
  const bool close = higher.client->runs_beside(client) || budgets_[higher.client->slot].awaits_request();
  return close ? options().tuning.close_ns : options().tuning.near_ns;
}

// Only if the client takes turns with no client that is not at rest, and hardly any unforeseen delays come to the clients above it.
bool Budget::may_be_long(const Client& client) const {
  return std::ranges::none_of(above(), [&](const Higher& higher) {
    if (!higher.client->outranks(client) || higher.stands) return false;
    const bool at_rest = !budgets_[higher.client->slot].in_segment();
    return !(at_rest || higher.client->runs_beside(client)) ||
           higher.unforeseen[switch_ns(client, *higher.client) > 0 ? 1 : 0].share > options().tuning.surprise;
  });
}

void Budget::spend(const Client& client, std::int64_t length_ns, std::int64_t served_ns) {
  for (const Higher& higher : above()) {
    if (!higher.client->outranks(client)) continue;
    const Cost cost = this->cost(higher, client, length_ns);
    const std::int64_t switches_ns = cost.there_ns > 0 ? cost.there_ns + cost.back_ns : 0;
    if (higher.stands) {
      budgets_[higher.client->slot].lower_granted();
      budgets_[higher.client->slot].beside_silence(length_ns);
      continue;
    }
    budgets_[higher.client->slot].lower_granted();
    budgets_[higher.client->slot].spend({.more_ns = cost.delay_ns,
                                         .all_ns = higher.calibration_of(client) * cost.all_ns,
                                         .takes_ns = static_cast<double>(length_ns + switches_ns),
                                         .at_work = higher.at_work,
                                         .turns = cost.back_ns > 0,
                                         .opens = cost.opens},
                                        now_ns_);
  }
  suspects_.granted(client.slot);
  takes_device(client, now_ns_ + static_cast<std::int64_t>(options().tuning.reaction_ns), length_ns);
  shares_.served(client, served_ns);
  if (client.waiting_duration_ns < 0) guess_begins(client, now_ns_);
}

// Where much came unforeseen to a client, lower work counts as complete only when its own client reports it.
void Budget::see_doubts() {
  bool above = false;    // much came unforeseen to a client above this level
  bool doubtful = false; // to one above it, or of it
  int level = 0;
  for (Client& client : clients().all()) {
    if (client.priority != level) above = doubtful, level = client.priority;
    doubtful |= !client.measuring && budgets_[client.slot].wary();
    if (client.distrusted == (above && !client.measuring)) continue;
    client.distrusted = above && !client.measuring;
    clients().changed(client);
  }
}

// What clients with closed gates have in flight. If it is not known to be complete when it should be, lower work behind it has to wait.
Budget::Lower Budget::lower_work(std::int64_t now_ns) const {
  Lower lower{.end_ns = now_ns, .hold = {}};
  for (const Client& client : clients().span()) {
    if (!client.closed || client.measuring) continue;
    if (client.progress.uncertain_at(now_ns))
      return {.end_ns = now_ns + options().lease_ns, .hold = {.reason = Reason::uncertain, .by = client.id}};
    if (client.late(now_ns))
      return {.end_ns = now_ns + options().lease_ns, .hold = {.reason = Reason::run_ahead, .by = client.id}};
    if (client.progress.finish_ns() <= lower.end_ns) continue;
    lower = {.end_ns = client.progress.finish_ns(), .hold = {.reason = Reason::run_ahead, .by = client.id}};
  }
  return lower;
}

} // namespace fikit::policy::budget
