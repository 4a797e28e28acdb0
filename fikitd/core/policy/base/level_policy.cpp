#include "level_policy.hpp"

#include <algorithm>

namespace fikit::policy {

void LevelPolicy::set_level(int level) {
  level_ = level;
  clients_.set_level(level);
  wait_reasons_.clear();
}

void LevelPolicy::learn(const LevelPolicy& higher) {
  clients_ = higher.clients_;
  gates_known_ = false;
  set_level(level_);
}

void LevelPolicy::begin(const LevelPolicy& lower, std::int64_t now_ns) {
  for (const Client& client : lower.all()) {
    apply({.kind = EventKind::client_added,
           .client = client.id,
           .time_ns = now_ns,
           .priority = client.priority,
           .measuring = client.measuring,
           .overlaps = client.overlaps,
           .user = client.user,
           .job = client.job,
           .protection = client.protection},
          client.slot);
    Client& known = *clients_.find(client.id);
    if (client.closed) clients_.close(known, now_ns);
    known.asks = client.asks;
    take_over(client, now_ns);
  }
}

void LevelPolicy::change_priority(const Client& client, int priority, std::int64_t now_ns) {
  apply({.kind = EventKind::client_removed, .client = client.id, .time_ns = now_ns});
  apply({.kind = EventKind::client_added,
         .client = client.id,
         .time_ns = now_ns,
         .priority = priority,
         .overlaps = client.overlaps,
         .user = client.user,
         .job = client.job,
         .protection = client.protection},
        client.slot);
}

void LevelPolicy::take_over(const Client& known, std::int64_t now_ns) {
  const Client* client = clients_.find(known.id);
  if (client->decided != Decided::below && !client->measuring) clients_.take_over(known, now_ns);
}

bool LevelPolicy::apply(const Event& event, std::size_t slot) {
  if (event.kind == EventKind::tick) return true;
  if (event.kind == EventKind::client_added) return add(event, slot);
  Client* client = clients_.find(event.client);
  if (client == nullptr) return false;
  if (event.kind == EventKind::client_removed) {
    noted(event, *client);
    gates_known_ = false;
    wait_reasons_.clear();
    return clients_.remove(event.client, event.time_ns);
  }
  if (client->decided == Decided::below) return apply_below(event, *client);
  if (event.kind == EventKind::launched && !clients_.let_go(*client, event.granted, event.time_ns)) return true;
  apply_known(event, *client);
  if (event.kind == EventKind::exclusive_runs) clients_.changed(*client);
  else clients_.work_changed(*client);
  noted(event, *client);
  return true;
}

bool LevelPolicy::add(const Event& event, std::size_t slot) {
  Client* added = clients_.add(event.client, event.priority, event.measuring, event.time_ns, slot);
  if (added == nullptr) return false;
  added->overlaps = event.overlaps;
  added->user = event.user, added->job = event.job;
  added->protection = event.protection.value_or(options_.protection);
  clients_.changed(*added);
  wait_reasons_.clear(); // rows have moved
  gates_known_ = false;
  noted(event, *added);
  return true;
}

// Of the reports of a client below the level only those count that say that something is over: they hold no client for longer.
bool LevelPolicy::apply_below(const Event& event, Client& client) {
  if (event.kind == EventKind::grant_done) clients_.done_below(client, event.time_ns, event.request);
  else if (event.kind == EventKind::drained && event.duration_ns == 0) clients_.all_done_below(client, event.time_ns);
  else return true;
  clients_.work_changed(client);
  noted_done_below(event);
  return true;
}

void LevelPolicy::apply_known(const Event& event, Client& client) {
  switch (event.kind) {
    case EventKind::launched:
      if (event.granted) {
        // How long a lower client's kernel takes the device: such a kernel mostly stands in line.
        const std::int64_t in_line_ns = looks_ahead() ? event.outlook.in_line_ns : 0;
        const std::int64_t takes_ns = event.duration_ns < 0 ? kUnknown : event.duration_ns + in_line_ns;
        clients_.granted_launch(client, event.time_ns, event.request, takes_ns, event.gap_ns);
        client.run.follows(event.outlook.run, event.outlook.long_run, takes_ns);
      } else {
        clients_.launched(client, event.time_ns, event.duration_ns, event.gap_ns, event.outlook.in_line_ns);
      }
      break;
    case EventKind::waiting: wait(event, client); break;
    case EventKind::waiting_ended:
      if (client.request == event.request) client.waiting = false, client.copy = Engine::compute;
      break;
    case EventKind::drained:
      clients_.drained(client, {.t_ns = event.time_ns,
                                .since_ns = event.since_ns,
                                .remaining_ns = event.duration_ns,
                                .spread_ns = event.spread_ns});
      if (event.waited && event.duration_ns == 0) client.at_rest = true;
      break;
    case EventKind::running: clients_.running(client, event.time_ns, event.duration_ns); break;
    case EventKind::exclusive_runs: client.exclusive_runs = event.exclusive; break;
    case EventKind::grant_done: clients_.grant_done(client, event.time_ns, event.request); break;
    case EventKind::host_stands: client.stands = event.stands; break;
    case EventKind::profiled:
    case EventKind::copied:
    default: break;
  }
}

void LevelPolicy::wait(const Event& event, Client& client) {
  const std::int64_t in_line_ns = looks_ahead() ? event.outlook.in_line_ns : 0;
  const std::int64_t takes_ns = event.duration_ns < 0 ? kUnknown : event.duration_ns + in_line_ns;
  client.waiting = client.closed && event.engine == Engine::compute; // at an open gate no launch waits
  client.copy = client.closed ? event.engine : Engine::compute;
  client.request = event.request;
  client.waiting_since_ns = event.time_ns;
  client.waiting_duration_ns = takes_ns;
  client.cautious_ns = takes_ns < options_.run_ahead_ns ? takes_ns : std::max(takes_ns, event.outlook.high_ns);
  client.feared_ns = takes_ns < 0 ? kUnknown : std::max(takes_ns, event.outlook.feared_ns);
  client.longest_ns = takes_ns < 0 ? kUnknown : std::max(client.feared_ns, event.outlook.longest_ns);
  client.run_longer_ns = event.outlook.run_longer_ns;
  wait_reasons_.forget(clients_.row(client));
  if (looks_ahead()) clients_.take_back(client, event.time_ns);
  client.waiting_exclusive = event.exclusive;
  client.run_launches = event.duration_ns < 0 || event.exclusive ? 1 : std::max(event.outlook.run.launches, 1U);
  client.run_ns = std::max(takes_ns, event.outlook.run.work_ns);
  client.long_run = event.duration_ns < 0 || event.exclusive ? Launches{} : event.outlook.long_run;
  client.run = {};
}

void LevelPolicy::give(const Given& given, std::int64_t now_ns) {
  Client* client = clients_.find(given.client);
  if (client == nullptr) return;
  noted_given(given, *client, now_ns);
  const bool below = client->decided == Decided::below;
  switch (given.kind) {
    case Given::Kind::launches: {
      client->request = given.request;
      const Launches known{.launches = given.granted.launches, .work_ns = std::min(given.charged_ns, options_.lease_ns)};
      clients_.grant(*client, now_ns, below ? known : given.granted);
      break;
    }
    case Given::Kind::more_of_run:
      clients_.give_more(*client, now_ns, given.granted);
      break;
    case Given::Kind::end_of_run:
      if (!below) clients_.end_run(*client);
      break;
    case Given::Kind::copy:
      client->copy = Engine::compute;
      clients_.work_changed(*client);
      break;
  }
}

void LevelPolicy::decide(std::int64_t now_ns, Decisions& out) {
  out.clear();
  given_count_ = 0;
  set_gates(now_ns, out);
  clients_.pass(now_ns);
  const Index::Sets& some = sets();
  while (Client* client = some.running.any() ? overstaying(now_ns) : nullptr) {
    clients_.end_run(*client);
    add_given({.kind = Given::Kind::end_of_run, .client = client->id, .granted = {}});
    out.add({.kind = DecisionKind::end_run, .client = client->id});
  }
  wait_reasons_.clear();
  if (some.copying.any()) grant_copies(now_ns, out);
  wait_reasons_.keep();
  while (Client* client = some.exclusive.any() ? not_to_starve(now_ns) : nullptr) {
    const Launches one = only_one(*client);
    noted_given({.client = client->id, .request = client->request, .granted = one, .charged_ns = charged_ns(*client, one)}, *client,
                now_ns);
    grant(*client, one, now_ns, out);
  }
  while (Client* client = choose_again(now_ns)) grant(*client, granted(*client), now_ns, out);
  for (Extension more; some.running.any() && (more = extended(now_ns)).client != nullptr;) {
    const std::int64_t more_ns = more.client->run.more_ns(more.to);
    const std::uint32_t launches = clients_.extend(*more.client, now_ns, more.to);
    add_given({.kind = Given::Kind::more_of_run,
               .client = more.client->id,
               .granted = {.launches = launches, .work_ns = more_ns},
               .charged_ns = more_ns});
    out.add({.kind = DecisionKind::extend_run, .client = more.client->id, .launches = launches});
  }
  if (!clients_.index().at_gate().any()) return;
  const std::int64_t wake_ns = next_change_ns(now_ns);
  if (wake_ns != kNever) out.add({.kind = DecisionKind::wake_at, .time_ns = wake_ns});
}

void LevelPolicy::grant(Client& client, const Launches& granted, std::int64_t now_ns, Decisions& out) {
  add_given({.client = client.id, .request = client.request, .granted = granted, .charged_ns = charged_ns(client, granted)});
  clients_.grant(client, now_ns, granted);
  out.add({.kind = DecisionKind::grant, .client = client.id, .request = client.request, .launches = granted.launches});
}

void LevelPolicy::set_gates(std::int64_t now_ns, Decisions& out) {
  if (gates_known_) return;
  gates_known_ = true;
  int highest = 10;
  for (const Client& client : clients_.all())
    if (!client.measuring) highest = std::min(highest, client.priority);
  for (Client& client : clients_.all()) {
    const bool close = gates() && !client.measuring && client.priority > highest;
    if (close != client.closed) {
      if (close) clients_.close(client, now_ns);
      else clients_.open(client);
      out.add({.kind = close ? DecisionKind::close : DecisionKind::open, .client = client.id});
    }
    const CopyEngines asks = close ? copies_that_matter(client) : CopyEngines{};
    if (asks == client.asks) continue;
    client.asks = asks;
    out.add({.kind = DecisionKind::ask_copies, .client = client.id, .engines = asks});
  }
}

void LevelPolicy::grant_copies(std::int64_t now_ns, Decisions& out) {
  while (Client* client = choose_copy(now_ns)) {
    wait_reasons_.clear();
    add_given({.kind = Given::Kind::copy,
               .client = client->id,
               .request = client->request,
               .granted = {.launches = 1, .work_ns = client->waiting_duration_ns},
               .charged_ns = client->waiting_duration_ns,
               .engine = client->copy});
    client->copy = Engine::compute;
    clients_.work_changed(*client);
    out.add({.kind = DecisionKind::grant, .client = client->id, .request = client->request});
  }
}

// Chooses once more, and notes anew why the clients that are left wait.
Client* LevelPolicy::choose_again(std::int64_t now_ns) {
  wait_reasons_.again();
  return choose(now_ns);
}

// A client that goes first because a kernel of its job runs and waits for another one of the job: held up, that kernel would keep the
// device for nothing, for ever. Of launches that may come before the other one only so many are in flight as keep the device busy.
Client* LevelPolicy::not_to_starve(std::int64_t now_ns) {
  constexpr std::size_t kInFlight = 8;
  for (Client& client : clients_.among(sets().waiting & sets().exclusive))
    if (client.grant_count < kInFlight && client.progress.finish_ns() - now_ns < options_.lease_ns) return &client;
  return nullptr;
}

Client* LevelPolicy::first_waiting(std::int64_t now_ns) {
  Client* best = nullptr;
  for (Client& client : clients_.among(sets().waiting | sets().elsewhere)) {
    if (const Client* higher = keeps_from_gap(client, now_ns))
      hold(client, {.reason = Reason::does_not_fit, .by = higher->id});
    else if (best == nullptr || client.goes_before(*best)) best = &client;
  }
  return best;
}

const Client* LevelPolicy::keeps_from_gap(const Client& client, std::int64_t now_ns) const {
  if (!client.waiting_exclusive) return nullptr;
  return highest([&](const Client& other) {
    return other.outranks(client) && now_ns < other.progress.dry_ns() + options_.idle_after_ns;
  });
}

std::int64_t LevelPolicy::next_idle_ns(std::int64_t now_ns) const {
  std::int64_t next_ns = kNever;
  for (const Client& client : clients_.among(sets().waiting))
    if (const Client* higher = keeps_from_gap(client, now_ns))
      next_ns = std::min(next_ns, higher->progress.dry_ns() + options_.idle_after_ns);
  return next_ns;
}

WaitReason LevelPolicy::behind(const Client& higher, std::int64_t now_ns) {
  const bool guess = higher.progress.uncertain_at(now_ns) && now_ns >= higher.progress.finish_ns();
  return {.reason = guess ? Reason::uncertain : Reason::behind, .by = higher.id};
}

} // namespace fikit::policy
