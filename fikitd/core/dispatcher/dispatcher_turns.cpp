// Turns, of two kinds: measured processes of one job run one at a time (siblings.hpp), and so do clients whose memory does not fit on the GPU
// together. A client waits for its turn at a closed gate, which opens by itself when fikitd does not renew its lease.
#include <algorithm>
#include <stdexcept>

#include "clock.hpp"
#include "dispatcher.hpp"

namespace fikit::dispatcher {
namespace {

constexpr std::int64_t kTurnNs = 20'000'000;
constexpr std::int64_t kPauseNs = 500'000; // a turn may end once its client has launched nothing for so long and has nothing on the device

} // namespace

void Dispatcher::see_turns() {
  turns_.clear();
  for (const auto& client : clients_) {
    const bool takes_turns = client->measuring() && client->siblings() != nullptr &&
                             std::ranges::any_of(clients_, [&](const auto& other) {
                               return other != client && other->measuring() && other->siblings() == client->siblings();
                             });
    if (takes_turns) turns_.push_back(client.get());
    else if (client->measuring() && client->closed()) client->open_gate(now());
  }
}

// Holds the gates of measured clients with measured siblings closed, except that of the turn's holder; ends turns and begins the next.
void Dispatcher::take_turns(std::int64_t now_ns) {
  for (Client* client : turns_) {
    Siblings::Turn& turn = client->siblings()->turn;
    const bool holds = client->id() == turn.holder;
    if (!holds && !client->closed()) client->close_gate(now_ns + lease_ns(now_ns));
    if (!holds) client->held({.reason = policy::Reason::turn, .by = turn.holder}, now_ns);
    if (std::ranges::none_of(turns_, [&](const Client* c) { return c->siblings() == client->siblings() && c->id() == turn.holder; }))
      begin_turn(*client, now_ns); // the first turn, or its holder has left
    else if (holds && !turn.ends) end_turn(*client, now_ns);
    else if (holds && (client->all_over() || now_ns - turn.since_ns >= options_.lease_ns)) next_turn(*client, now_ns);
    closed_ |= client->closed(); // so that leases are renewed
  }
}

void Dispatcher::begin_turn(Client& client, std::int64_t now_ns) {
  client.siblings()->turn = {.holder = client.id(), .ends = false, .since_ns = now_ns};
  if (client.closed()) client.open_gate(now_ns);
  read(client);
}

// Ends the turn if another client waits and this one has had its time, or does not use it.
void Dispatcher::end_turn(Client& client, std::int64_t now_ns) {
  Siblings::Turn& turn = client.siblings()->turn;
  const bool wanted = std::ranges::any_of(turns_, [&](const Client* c) { return c->siblings() == client.siblings() && c->waiting(); });
  const bool over = now_ns - turn.since_ns >= kTurnNs || (client.all_over() && client.quiet_ns(now_ns) >= kPauseNs);
  if (!wanted || !over) return;
  turn.ends = true;
  turn.since_ns = now_ns;
  client.close_gate(now_ns + lease_ns(now_ns));
}

// The next waiting client after this one, in the order in which they came.
void Dispatcher::next_turn(const Client& client, std::int64_t now_ns) {
  const auto own = std::ranges::find(turns_, &client);
  const auto next = [&](auto begin, auto end) {
    return std::find_if(begin, end, [&](const Client* c) { return c->siblings() == client.siblings() && c->waiting(); });
  };
  auto found = next(own + 1, turns_.end());
  if (found == turns_.end()) found = next(turns_.begin(), own + 1);
  if (found != turns_.end()) begin_turn(**found, now_ns);
}

// ---- turns of clients whose memory does not fit on the GPU together

void Dispatcher::send_away(ClientId id, std::int64_t for_ns) {
  if (for_ns < 0 || for_ns > kLongestAwayNs) throw std::invalid_argument("a client is sent away for 10 s at most at a time");
  const std::lock_guard lock(mutex_);
  Client& client = this->client(id);
  if (client.measuring()) throw std::invalid_argument("a client that measures is not sent away for its memory");
  const std::int64_t now_ns = now();
  if (for_ns > 0) {
    const bool is_new = !client.away();
    client.send_away(now_ns + for_ns, now_ns + lease_ns(now_ns));
    if (!is_new) return;
  } else if (client.away()) {
    client.call_back(now_ns);
  } else {
    return;
  }
  gate_moved_ns_ = now_ns;
  read(client);
  tell_clients();
  doorbells_.ring_own();
}

bool Dispatcher::busy(const Client& client) const {
  const policy::Client* view = policy_->client(client.id());
  // At a closed gate the end of each grant is reported. At an open one the work is known to be complete by a synchronisation or a mark.
  return view->closed ? view->grant_count > 0 : !client.all_over();
}

bool Dispatcher::stands(ClientId id) {
  const std::lock_guard lock(mutex_);
  return client(id).stands();
}

Dispatcher::Standing Dispatcher::standing(ClientId id) {
  const std::lock_guard lock(mutex_);
  const Client& client = this->client(id);
  return {.at_gate = client.at_gate(), .busy = busy(client), .launches = client.launches()};
}

bool Dispatcher::call_back_due(std::int64_t now_ns) {
  bool any = false;
  for (const auto& client : clients_) {
    if (!client->away() || now_ns < client->away_until_ns()) continue;
    client->call_back(now_ns);
    read(*client);
    any = true;
  }
  if (any) tell_clients();
  return any;
}

std::int64_t Dispatcher::next_back_ns() const {
  std::int64_t next_ns = policy::kNever;
  for (const auto& client : clients_)
    if (client->away()) next_ns = std::min(next_ns, client->away_until_ns());
  return next_ns;
}

} // namespace fikit::dispatcher
