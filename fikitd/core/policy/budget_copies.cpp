// Copies of lower clients: a copy is refused only where a higher client is expected to copy in the same direction before its end.
#include <algorithm>

#include "budget.hpp"

namespace fikit::policy {

Hold Budget::copy_obstacle(const Client& client, std::int64_t now_ns) const {
  const std::int64_t length_ns = client.waiting_duration_ns;
  const std::int64_t end_ns = copies_.end_ns({.client = client, .engine = client.copy, .length_ns = length_ns}, now_ns);
  for (const Client& higher : clients().all()) {
    const Copying& copying = copies_.of(higher, client.copy);
    if (!higher.outranks(client) || !copying.expected(now_ns)) continue;
    if (copying.longest_delay_ns(end_ns, now_ns) > higher.protection.max_delay_ns)
      return {.reason = Reason::does_not_fit, .by = higher.id};
    const double delay_ns = copies_.delay_ns(higher, client.copy, end_ns, now_ns);
    if (delay_ns <= options().tuning.nothing * static_cast<double>(length_ns)) continue;
    const Account::Means means = accounts_[higher.slot].means(now_ns, false, higher.protection.max_slowdown);
    if (!means.affords(delay_ns, length_ns))
      return {.reason = means.covers(delay_ns) ? Reason::does_not_fit : Reason::budget_spent, .by = higher.id};
  }
  return {};
}

void Budget::copy_done(const Event& event) {
  copies_.done(event, [this](const Copies::Low& copy) {
    for (const Client& higher : clients().among(clients().above(copy.priority)))
      accounts_[higher.slot].lower_copy_over(copy.granted_ns, copy.over_ns);
  });
}

Client* Budget::choose_copy(std::int64_t now_ns) {
  ageing_.begin(now_ns);
  Client* best = nullptr;
  for (Client& client : clients().among(sets().copying)) {
    const bool due = client.exclusive_runs || ageing_.due(client, now_ns);
    const Hold why = due ? Hold{} : copy_obstacle(client, now_ns);
    hold(client, why);
    if (why.reason == Reason::none && (best == nullptr || queue_.goes_before(client, *best))) best = &client;
  }
  if (best == nullptr) return nullptr;
  grant_copy({.client = *best, .engine = best->copy, .length_ns = best->waiting_duration_ns}, best->request, now_ns);
  return best;
}

void Budget::grant_copy(const Copies::Asked& copy, std::uint32_t request, std::int64_t now_ns) {
  const std::int64_t end_ns = copies_.end_ns(copy, now_ns);
  for (const Client& higher : clients().all())
    if (higher.outranks(copy.client) && copies_.of(higher, copy.engine).expected(now_ns))
      accounts_[higher.slot].spend_on_copy(std::max(0.0, copies_.delay_ns(higher, copy.engine, end_ns, now_ns)), copy.length_ns,
                                           now_ns);
  copies_.grant(copy, request, end_ns, now_ns);
}

} // namespace fikit::policy
