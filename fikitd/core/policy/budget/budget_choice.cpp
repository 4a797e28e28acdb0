// Which of the waiting clients goes next, whose run goes on, and when to decide again.
#include <algorithm>
#include <array>

#include "budget.hpp"

namespace fikit::policy::budget {

Client* Budget::choose(std::int64_t now_ns) {
  if (!sets().waiting.any()) return nullptr;
  look(now_ns, clients().at(sets().waiting.last()).priority);
  if (ahead_ns() > options().lease_ns / 2) { // for much longer the policy believes in no client's work without a report of it
    hold(sets().waiting, lower_.hold);
    return nullptr;
  }
  see_running();
  Client* best = nullptr;
  for (Client& client : clients().among(sets().waiting)) {
    if (best != nullptr && best->priority != client.priority) break; // this client and all after it are below the best one
    if (best != nullptr && !goes_before(client, *best)) continue;
    WaitReason why = answer(client);
    if (any_keeper_ && why.reason == Reason::none) why = kept(client);
    hold(client, why);
    if (why.reason == Reason::none) best = &client;
  }
  if (best == nullptr) return nullptr;
  lengthen(*best);
  const Launches& granted = granted_[best->slot];
  spend(*best, asked_ns(*best, granted), granted.launches > 1 ? granted.work_ns : length_ns(*best));
  unconfirmed_.launches_granted(best->slot, best->request, now_ns);
  return best;
}

// Why the client may not go; Reason::none if it may. Asks first about its whole run, then about its next kernel alone.
WaitReason Budget::answer(const Client& client) {
  granted_[client.slot] = only_one(client);
  if (const Client* equal = running_with_less(client); equal != nullptr && !due(client, now_ns_))
    return {.reason = Reason::turn, .by = equal->id};
  if (client.grant_count == kMaxGrants) return {.reason = Reason::run_ahead, .by = client.id};
  if (client.waiting_duration_ns < 0 && (ahead_ns() != 0 || client.grant_count != 0))
    return {.reason = Reason::unknown, .by = ahead_ns() > 0 ? lower_.hold.by : client.id};
  const Launches run{.launches = client.run_launches, .work_ns = client.run_ns};
  if (run.launches > 1 && objection(client, run.work_ns, longer(client, run)).reason == Reason::none) {
    granted_[client.slot] = run;
    return {};
  }
  if (due(client, now_ns_)) return {};
  const Launches one = only_one(client);
  return objection(client, asked_ns(client, one), longer(client, one), run.launches > 1 ? run.work_ns : 0);
}

// A stop or a pause for the sake of a client above; Reason::none if there is neither.
WaitReason Budget::kept(const Client& client) const {
  const Client* higher = keeps_all(client, now_ns_);
  if (higher == nullptr || due(client, now_ns_)) return {};
  return {.reason = Reason::budget_spent, .by = higher->id};
}

// Grants the long run instead, if all clients above are at rest. The next launch of one at work would end it, unless kernels overlap.
void Budget::lengthen(const Client& client) {
  Launches& granted = granted_[client.slot];
  const Launches& long_run = client.long_run;
  if (long_run.launches <= granted.launches || !may_be_long(client)) return;
  if (objection(client, long_run.work_ns, longer(client, long_run)).reason == Reason::none) granted = long_run;
}

bool Budget::may_extend(const Client& client) const {
  const Run& run = client.run;
  const std::int64_t most_ns = 4 * options().run_ahead_ns; // after so much, the mark of the last launch says how far the client is
  return client.closed && !client.waiting && client.grant_count > 0 && client.grants[client.grant_count - 1].duration_ns >= 0 &&
         run.taken && run.launches > 0 && run.granted_ns < most_ns && (run.half_granted(run.next) || run.half_granted(run.long_next));
}

bool Budget::may_become_longer(const Client& client, const Launches& to) const {
  const Longer behind{.feared_ns = 0, .longest_ns = client.run_longer_ns}; // a run goes on to no kernel that is feared to be long
  return client.run.half_granted(to) && objection(client, client.run.more_ns(to), behind).reason == Reason::none;
}

Budget::Extension Budget::extended(std::int64_t now_ns) {
  Client* best = nullptr;
  for (Client& client : clients().among(sets().running))
    if (may_extend(client) && (best == nullptr || goes_before(client, *best))) best = &client;
  if (best == nullptr || keeps_all(*best, now_ns) != nullptr) return {};
  see_running();
  if (running_with_less(*best) != nullptr) return {};
  for (const Client& client : clients().among(sets().waiting | sets().elsewhere))
    if (!goes_before(*best, client)) return {};
  look(now_ns, best->priority);
  const Run& run = best->run;
  const bool far = run.long_next.launches > run.next.launches && may_be_long(*best) && may_become_longer(*best, run.long_next);
  if (!far && !may_become_longer(*best, run.next)) return {};
  const Launches& to = far ? run.long_next : run.next;
  spend(*best, run.more_ns(to), run.more_ns(to));
  return {.client = best, .to = to};
}

// The rest of a run was worth its delay when the run was granted, but a higher client may have launched since. And a client that
// launches more than was left of its run is not doing what was predicted, and granted.
Client* Budget::overstaying(std::int64_t now_ns) {
  if (!sets().running.any()) return nullptr;
  for (Client& client : clients().among(sets().running & sets().closed)) {
    if (client.run.mispredicted || (any_keeper_ && stops(client, now_ns) != nullptr)) return &client;
    look(now_ns, client.priority);
    const std::int64_t left_ns = client.run.left_ns;
    const std::int64_t end_ns = std::max(client.progress.finish_ns(), now_ns + left_ns);
    for (const Higher& higher : above()) {
      if (!higher.client->outranks(client) || higher.stands) continue;
      // In slices each launch of the run takes the device from a higher client that is back, and costs two switches.
      const std::int64_t back_ns = switch_ns(client, *higher.client);
      if (back_ns > 0 && left_ns > 0 && budgets_[higher.client->slot].back_early()) return &client;
      const double delay_ns = higher.forecast.delay_ns({.end_ns = end_ns, .back_ns = back_ns}) -
                              higher.forecast.delay_ns({.end_ns = end_ns - left_ns, .back_ns = back_ns});
      if (higher.calibration_of(client) * higher.affected * delay_ns > higher.worth * static_cast<double>(left_ns)) return &client;
    }
  }
  return nullptr;
}

// A client above whose budget stops all lower work, or this client's; nullptr: none.
const Client* Budget::stops(const Client& client, std::int64_t now_ns) const {
  for (const Client& higher : clients().span()) {
    if (!higher.outranks(client) || stands(higher, now_ns)) continue;
    if (keepers_.has(higher.slot) && budgets_[higher.slot].stops(now_ns)) return &higher;
    if (suspects_.keeps(client.slot, now_ns) == higher.id) return &higher;
  }
  return nullptr;
}

// A client above for whose sake nothing is granted now.
const Client* Budget::keeper(const Client& client, std::int64_t now_ns) const {
  for (const Client& higher : clients().span())
    if (keepers_.has(higher.slot) && higher.outranks(client) && !stands(higher, now_ns) && budgets_[higher.slot].pauses(now_ns)) return &higher;
  return stops(client, now_ns);
}

// No client waits for longer than a second (starvation_timeout_ns); ten seconds below a client that has no budget left, whose requests
// may queue, or that has a max_delay.
std::int64_t Budget::patience_ns(const Client& client, std::int64_t now_ns) const {
  for (const Client& higher : clients().span()) {
    if (!higher.outranks(client)) continue;
    const SlowdownBudget& budget = budgets_[higher.slot];
    if (higher.protection.max_delay_ns != kNever || budget.overdrawn(now_ns) || budget.others_may_wait(now_ns))
      return 10 * options().starvation_timeout_ns;
  }
  return options().starvation_timeout_ns;
}

std::int64_t Budget::length_ns(const Client& client) const {
  return client.waiting_duration_ns >= 0 ? client.waiting_duration_ns : guesses_[client.slot].length_ns;
}

bool Budget::goes_before(const Client& a, const Client& b) const {
  return a.priority != b.priority ? a.priority < b.priority : shares_.goes_before(a, b);
}

void Budget::see_running() {
  running_ = {};
  for (const Client& client : clients().among(sets().closed & sets().granted)) {
    if (client.waiting && client.grant_count < kMaxGrants) continue;
    const Client*& least = running_[static_cast<std::size_t>(client.priority)];
    if (least == nullptr || goes_before(client, *least)) least = &client;
  }
}

const Client* Budget::running_with_less(const Client& client) const {
  const Client* least = running_[static_cast<std::size_t>(client.priority)];
  const bool less = least != nullptr && shares_.more_ns(client, *least) > static_cast<double>(options().run_ahead_ns);
  return less ? least : nullptr;
}

// Expected delays change as time goes by, without any event: decide again when one may have become worth its gain.
std::int64_t Budget::next_change_ns(std::int64_t now_ns) const {
  constexpr std::int64_t kAgainNs = 50'000;
  constexpr std::int64_t kAgainShare = 16;
  std::int64_t longest_ns = 0;
  std::int64_t next_ns = next_end_ns(now_ns);
  const auto at = [&](std::int64_t t_ns) { next_ns = t_ns > now_ns ? std::min(next_ns, t_ns) : next_ns; };
  for (const Client& client : clients().among(clients().index().at_gate())) {
    const std::int64_t waited_ns = now_ns - client.waiting_since_ns;
    longest_ns = std::max(longest_ns, waited_ns);
    at(client.waiting_since_ns + (waited_ns < options().starvation_timeout_ns ? options().starvation_timeout_ns : patience_ns(client, now_ns)));
  }
  for (const Client& client : clients().span()) at(budgets_[client.slot].nobody_waits_from_ns());
  const std::int64_t lower_end_ns = lower_work(now_ns).end_ns;
  at(lower_end_ns - options().run_ahead_ns);
  at(lower_end_ns - static_cast<std::int64_t>(options().tuning.near_ns));
  at(lower_end_ns - static_cast<std::int64_t>(options().tuning.close_ns));
  at(free_ns_ - static_cast<std::int64_t>(options().tuning.reaction_ns));
  return std::min(next_ns, now_ns + std::max(kAgainNs, longest_ns / kAgainShare));
}

} // namespace fikit::policy::budget
