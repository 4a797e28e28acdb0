#include "xsched.hpp"

#include <algorithm>

namespace fikit::policy {

void XSched::learn(const LevelPolicy& higher) {
  LevelPolicy::learn(higher);
  unnoticed_ = static_cast<const XSched&>(higher).unnoticed_;
}

void XSched::noted(const Event& event, const Client& client) {
  std::size_t& unnoticed = unnoticed_[client.slot];
  if (event.kind == EventKind::grant_done) unnoticed = (unnoticed + 1) % batch_;
  if (event.kind == EventKind::client_added || event.kind == EventKind::drained) unnoticed = 0;
}

Client* XSched::choose(std::int64_t now_ns) {
  Client* best = nullptr;
  for (Client& client : clients().all()) {
    if (!client.waits_here() || client.in_flight(now_ns) + unnoticed_[client.slot] >= threshold_) continue;
    if (best == nullptr || client.goes_before(*best)) best = &client;
  }
  const Client* busy = highest([&](const Client& client) { return client.progress.busy(now_ns); });
  if (best != nullptr && (busy == nullptr || !busy->outranks(*best))) return best;
  hold_waiting([&](const Client& client) {
    if (busy != nullptr && busy->outranks(client)) return behind(*busy, now_ns);
    return WaitReason{.reason = Reason::run_ahead, .by = client.id};
  });
  return nullptr;
}

std::int64_t XSched::next_change_ns(std::int64_t now_ns) const { return next_end_ns(now_ns); }

} // namespace fikit::policy
