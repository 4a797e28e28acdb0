#include "prio.hpp"

#include <algorithm>

namespace fikit::policy {

Client* Prio::choose(std::int64_t now_ns) {
  Client* best = nullptr; // highest priority, then longest waiting
  for (Client& client : clients().all()) {
    if (client.closed && (client.progress.busy(now_ns) || client.overdue(now_ns))) return nullptr; // one in flight
    if (!client.waiting) continue;
    if (best == nullptr || client.priority < best->priority ||
        (client.priority == best->priority && client.waiting_since_ns < best->waiting_since_ns))
      best = &client;
  }
  if (best == nullptr) return nullptr;
  const auto all = clients().all();
  const bool held = std::any_of(all.begin(), all.end(), [&](const Client& other) {
    return !other.measuring && outranks(other, *best) && other.progress.busy(now_ns);
  });
  return held ? nullptr : best;
}

std::int64_t Prio::next_change_ns(std::int64_t now_ns) const {
  std::int64_t next_ns = kNever;
  for (const Client& client : clients().all()) {
    if (client.measuring) continue;
    for (const std::int64_t moment_ns : {client.progress.dry_ns(), client.forget_ns()})
      if (moment_ns > now_ns) next_ns = std::min(next_ns, moment_ns);
  }
  return next_ns;
}

} // namespace fikit::policy
