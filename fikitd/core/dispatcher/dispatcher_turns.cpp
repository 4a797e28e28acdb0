// Whose turn it is, where not all may run. Measured processes of one job take turns on a GPU (siblings.hpp). Whoever waits for his turn waits for a lease at most: a gate
// that fikitd does not renew opens by itself.
#include <algorithm>
#include <stdexcept>

#include "clock.hpp"
#include "dispatcher.hpp"

namespace fikit::dispatcher {
namespace {

constexpr std::int64_t kTurnNs = 20'000'000;
constexpr std::int64_t kPauseNs = 500'000; // who has launched nothing for so long, and has nothing on the device, is passed over

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

// Nobody is held whose turn it is; of the others nobody was there when it began.
void Dispatcher::take_turns(std::int64_t now_ns) {
  for (Client* client : turns_) {
    Siblings::Turn& turn = client->siblings()->turn;
    const bool holds = client->id() == turn.holder;
    if (!holds && !client->closed()) client->close_gate(now_ns + lease_ns(now_ns));
    if (!holds) client->held({.reason = policy::Reason::turn, .by = turn.holder}, now_ns);
    if (std::ranges::none_of(turns_, [&](const Client* c) { return c->siblings() == client->siblings() && c->id() == turn.holder; }))
      begin_turn(*client, now_ns); // it is the first, or the holder has gone
    else if (holds && !turn.ends) end_turn(*client, now_ns);
    else if (holds && (client->all_over() || now_ns - turn.since_ns >= options_.lease_ns)) next_turn(*client, now_ns);
    closed_ |= client->closed(); // leases are to be renewed
  }
}

void Dispatcher::begin_turn(Client& client, std::int64_t now_ns) {
  client.siblings()->turn = {.holder = client.id(), .ends = false, .since_ns = now_ns};
  if (client.closed()) client.open_gate(now_ns);
  read(client);
}

// If another one waits, and this one has had its time or does nothing with it.
void Dispatcher::end_turn(Client& client, std::int64_t now_ns) {
  Siblings::Turn& turn = client.siblings()->turn;
  const bool wanted = std::ranges::any_of(turns_, [&](const Client* c) { return c->siblings() == client.siblings() && c->waiting(); });
  const bool over = now_ns - turn.since_ns >= kTurnNs || (client.all_over() && client.quiet_ns(now_ns) >= kPauseNs);
  if (!wanted || !over) return;
  turn.ends = true;
  turn.since_ns = now_ns;
  client.close_gate(now_ns + lease_ns(now_ns));
}

// In the order in which they came, from this one on.
void Dispatcher::next_turn(const Client& client, std::int64_t now_ns) {
  const auto own = std::ranges::find(turns_, &client);
  const auto next = [&](auto begin, auto end) {
    return std::find_if(begin, end, [&](const Client* c) { return c->siblings() == client.siblings() && c->waiting(); });
  };
  auto found = next(own + 1, turns_.end());
  if (found == turns_.end()) found = next(turns_.begin(), own + 1);
  if (found != turns_.end()) begin_turn(**found, now_ns);
}

// ---- turns of those whose memory does not fit together

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

Dispatcher::Standing Dispatcher::standing(ClientId id) {
  const std::lock_guard lock(mutex_);
  const Client& client = this->client(id);
  const policy::Client* view = policy_->client(id);
  // At a closed gate each grant says when it is over; at an open one a wait of the host says it, or a mark.
  const bool busy = view->closed ? view->grant_count > 0 : !client.all_over();
  return {.at_gate = client.at_gate(), .busy = busy, .launches = client.launches()};
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
