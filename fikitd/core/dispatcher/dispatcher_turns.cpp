// Measured processes of one job take turns on a GPU (siblings.hpp). Whoever waits for his turn waits for a lease at most: a gate
// that fikitd does not renew opens by itself.
#include <algorithm>

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

} // namespace fikit::dispatcher
