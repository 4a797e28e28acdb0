// Copies of lower clients: may one go, by the delay of the clients above? A copy engine makes one copy after the other, each as a whole.
#include <algorithm>

#include "budget.hpp"

namespace fikit::policy::budget {

WaitReason Budget::copy_obstacle(const Client& client, std::int64_t now_ns) const {
  if (const Client* higher = keeps_all(client, now_ns)) return {.reason = Reason::budget_spent, .by = higher->id};
  const std::int64_t length_ns = client.waiting_duration_ns;
  const std::int64_t end_ns = copies_.end_ns({.client = client, .engine = client.copy, .length_ns = length_ns}, now_ns);
  for (const Client& higher : clients().span()) {
    const Copying& copying = copies_.of(higher, client.copy);
    if (!higher.outranks(client) || !copying.expected(now_ns)) continue;
    if (copying.longest_delay_ns(end_ns, now_ns) > higher.protection.max_delay_ns)
      return {.reason = Reason::does_not_fit, .by = higher.id};
    const double delay_ns = copies_.delay_ns(higher, client.copy, end_ns, now_ns);
    if (delay_ns <= 0) continue;
    const SlowdownBudget& budget = budgets_[higher.slot];
    if (delay_ns > budget.covers_ns(now_ns)) return {.reason = Reason::budget_spent, .by = higher.id};
    if (budget.affected(now_ns) * delay_ns > budget.worth(now_ns, false) * static_cast<double>(length_ns))
      return {.reason = Reason::does_not_fit, .by = higher.id};
  }
  return {};
}

void Budget::copy_done(const Event& event) {
  copies_.done(event, [this](const Copies::Low& copy) {
    for (const Client& higher : clients().among(clients().above(copy.priority)))
      budgets_[higher.slot].lower_copy_over(copy.granted_ns, copy.over_ns);
  });
}

Client* Budget::choose_copy(std::int64_t now_ns) {
  Client* best = nullptr;
  for (Client& client : clients().among(sets().copying)) {
    const WaitReason why = client.exclusive_runs || due(client, now_ns) ? WaitReason{} : copy_obstacle(client, now_ns);
    hold(client, why);
    if (why.reason == Reason::none && (best == nullptr || goes_before(client, *best))) best = &client;
  }
  if (best == nullptr) return nullptr;
  grant_copy({.client = *best, .engine = best->copy, .length_ns = best->waiting_duration_ns}, best->request, now_ns);
  return best;
}

void Budget::grant_copy(const Copies::Asked& copy, std::uint32_t request, std::int64_t now_ns) {
  const std::int64_t end_ns = copies_.end_ns(copy, now_ns);
  for (const Client& higher : clients().span()) {
    if (!higher.outranks(copy.client)) continue;
    budgets_[higher.slot].lower_granted();
    if (higher.stands) continue;
    if (!copies_.of(higher, copy.engine).expected(now_ns)) continue;
    const double delay_ns = std::max(0.0, copies_.delay_ns(higher, copy.engine, end_ns, now_ns));
    budgets_[higher.slot].spend_on_copy(delay_ns, static_cast<double>(copy.length_ns), now_ns);
  }
  unconfirmed_.copy_granted(copy.client.slot, request, now_ns);
  suspects_.granted(copy.client.slot);
  copies_.grant(copy, request, end_ns, now_ns);
}

} // namespace fikit::policy::budget
