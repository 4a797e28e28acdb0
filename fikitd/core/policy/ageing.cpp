#include "ageing.hpp"

#include <algorithm>
#include <utility>

namespace fikit::policy {

Ageing::Ageing(const ClientTable& clients, std::span<const Account> accounts, const Options& options)
    : clients_(clients), accounts_(accounts), ns_(options.ageing_ns) {
  const double guarded_ns = options.tuning.guarded_ageing * static_cast<double>(ns_);
  guarded_ns_ = guarded_ns < static_cast<double>(kNever) ? static_cast<std::int64_t>(guarded_ns) : kNever;
}

void Ageing::begin(std::int64_t now_ns) {
  now_ns_ = now_ns;
  const Rows& guarded = clients_.index().sets().guarded;
  guard_ = guarded.any() ? clients_.at(guarded.first()).priority : 10;
  all_seen_ = false;
}

bool Ageing::due(const Client& client, std::int64_t now_ns) {
  const std::int64_t waited_ns = now_ns - client.waiting_since_ns;
  if (waited_ns < ns_) return false;
  see_guarded();
  return waited_ns >= after_ns(client);
}

void Ageing::see_guarded() {
  if (std::exchange(all_seen_, true)) return;
  for (const Client& higher : clients_.among(clients_.above(guard_)))
    if (const Account& account = accounts_[higher.slot]; account.overdrawn() || account.others_may_wait(now_ns_))
      guard_ = std::min(guard_, higher.priority);
}

Rows Ageing::all_due(std::int64_t now_ns) {
  const Index::First& since = clients_.index().since();
  if (since.best() > now_ns - ns_) return {};
  const auto waited = [&](std::size_t row, std::int64_t ns) {
    Rows rows;
    while ((row = since.first(row, now_ns - ns)) < since.size()) rows.set(row++, true);
    return rows & clients_.index().sets().waiting;
  };
  const Rows old = waited(0, ns_);
  if (!old.any()) return old;
  see_guarded();
  const std::size_t guarded = clients_.first_below(guard_);
  return old.before(guarded) | (old & waited(guarded, guarded_ns_));
}

std::int64_t Ageing::next_ns(std::int64_t now_ns) const {
  std::int64_t next_ns = kNever;
  const auto due = [&](std::int64_t waited_ns, std::int64_t ns) {
    if (waited_ns < ns) next_ns = std::min(next_ns, now_ns + std::min(ns - waited_ns, kHorizonNs));
  };
  const std::int64_t longest_ns = now_ns - clients_.index().since().best();
  if (longest_ns < ns_) {
    due(longest_ns, ns_);
    return next_ns;
  }
  for (const Client& client : clients_.among(clients_.index().at_gate())) {
    const std::int64_t waited_ns = now_ns - client.waiting_since_ns;
    due(waited_ns, waited_ns < ns_ ? ns_ : after_ns(client));
  }
  return next_ns;
}

} // namespace fikit::policy
