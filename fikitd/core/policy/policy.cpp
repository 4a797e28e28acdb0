#include "policy.hpp"

#include <algorithm>

#include "fifo.hpp"
#include "fikit.hpp"
#include "prio.hpp"

namespace fikit::policy {

bool Policy::apply(const Event& event) {
  if (event.kind == EventKind::tick) return true;
  if (event.kind == EventKind::client_added)
    return clients_.add(event.client, event.priority, event.measuring, event.time_ns) != nullptr;
  if (event.kind == EventKind::client_removed) return clients_.remove(event.client);

  Client* client = clients_.find(event.client);
  if (client == nullptr) return false;
  switch (event.kind) {
    case EventKind::launched:
      if (event.granted)
        clients_.granted_launch(*client, event.time_ns, event.request, event.duration_ns, event.gap_ns);
      else clients_.launched(*client, event.time_ns, event.duration_ns, event.gap_ns);
      break;
    case EventKind::waiting:
      client->waiting = client->closed; // at an open gate nobody waits
      client->request = event.request;
      client->waiting_since_ns = event.time_ns;
      client->waiting_duration_ns = event.duration_ns;
      break;
    case EventKind::waiting_ended:
      if (client->request == event.request) client->waiting = false;
      break;
    case EventKind::drained:
      clients_.drained(*client, {.t_ns = event.time_ns,
                                 .since_ns = event.since_ns,
                                 .remaining_ns = event.duration_ns,
                                 .spread_ns = event.spread_ns});
      break;
    case EventKind::running: client->progress.running(event.time_ns, event.duration_ns, options_.lease_ns); break;
    case EventKind::grant_done: clients_.grant_done(*client, event.time_ns, event.request); break;
    default: return false;
  }
  return true;
}

void Policy::decide(std::int64_t now_ns, Decisions& out) {
  out.clear();
  set_gates(out);
  clients_.forget_old_grants(now_ns);
  while (Client* client = choose(now_ns)) {
    clients_.grant(*client, now_ns);
    out.add({.kind = DecisionKind::grant, .client = client->id, .request = client->request});
  }
  const auto all = clients_.all();
  if (std::none_of(all.begin(), all.end(), [](const Client& c) { return c.waiting; })) return;
  const std::int64_t wake_ns = next_change_ns(now_ns);
  if (wake_ns != kNever) out.add({.kind = DecisionKind::wake_at, .time_ns = wake_ns});
}

void Policy::set_gates(Decisions& out) {
  const auto all = clients_.all();
  for (Client& client : all) {
    const bool close = !client.measuring && std::any_of(all.begin(), all.end(), [&](const Client& other) {
      return !other.measuring && outranks(other, client);
    });
    if (close == client.closed) continue;
    client.closed = close;
    if (!close) client.waiting = false;
    out.add({.kind = close ? DecisionKind::close : DecisionKind::open, .client = client.id});
  }
}

std::unique_ptr<Policy> make_policy(std::string_view name, const Options& options) {
  if (name == "fifo") return std::make_unique<Fifo>(options);
  if (name == "prio") return std::make_unique<Prio>(options);
  if (name == "fikit") return std::make_unique<Fikit>(options);
  return nullptr;
}

} // namespace fikit::policy
