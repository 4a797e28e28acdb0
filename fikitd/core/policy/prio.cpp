#include "prio.hpp"

#include <algorithm>

namespace fikit::policy {

bool Prio::holds(const Client& higher, std::int64_t now_ns) const {
  if (boundary_.whole_request && !higher.at_rest) return true;
  if (!higher.progress.busy(now_ns)) return now_ns < higher.progress.dry_ns() + boundary_.idle_ns;
  return true;
}

Client* Prio::choose(std::int64_t now_ns) {
  std::size_t in_flight = 0;
  ClientId running = 0;
  for (const Client& client : clients().all()) {
    const std::size_t count = client.closed ? client.in_flight(now_ns) : 0;
    in_flight += count;
    if (count > 0) running = client.id;
  }
  const Client* holder = highest([&](const Client& client) { return holds(client, now_ns); });
  Client* best = in_flight < boundary_.in_flight ? first_waiting(now_ns) : nullptr;
  if (best != nullptr && best->grant_count == kMaxGrants) running = best->id;
  else if (best != nullptr && best->waits_here() && (holder == nullptr || !holder->outranks(*best))) return best;
  hold_waiting([&](const Client& client) {
    if (holder != nullptr && holder->outranks(client)) return behind(*holder, now_ns);
    if (const Client* higher = keeps_from_gap(client, now_ns))
      return Hold{.reason = Reason::does_not_fit, .by = higher->id};
    if (best != nullptr && &client != best) return after(*best, client);
    return Hold{.reason = Reason::run_ahead, .by = running};
  });
  return nullptr;
}

std::int64_t Prio::next_change_ns(std::int64_t now_ns) const {
  std::int64_t next_ns = next_idle_ns(now_ns);
  for (const Client& client : clients().all()) {
    if (client.measuring) continue;
    for (const std::int64_t moment_ns :
         {client.progress.dry_ns(), client.progress.dry_ns() + boundary_.idle_ns, client.forget_ns()})
      if (moment_ns > now_ns) next_ns = std::min(next_ns, moment_ns);
  }
  return next_ns;
}

} // namespace fikit::policy
