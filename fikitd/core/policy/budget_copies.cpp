// Copies of lower clients: a copy is refused only where a higher client is expected to copy in the same direction before its end.
#include <algorithm>

#include "budget.hpp"

namespace fikit::policy {

CopyEngines Budget::copies_that_matter(const Client& client) const {
  CopyEngines matter{};
  for (const Client& higher : clients().all())
    for (std::size_t engine = 0; engine < kCopyEngines && higher.outranks(client); ++engine)
      matter[engine] |= copying_[higher.slot][engine].known();
  return matter;
}

// In its stream it may stand behind its client's kernels.
std::int64_t Budget::copy_end_ns(const Client& client, std::int64_t now_ns) const {
  const auto reaction_ns = static_cast<std::int64_t>(options().tuning.reaction_ns);
  return std::max({now_ns + reaction_ns, low_copies_[copy_engine(client.copy)].end_ns, client.progress.finish_ns()}) +
         client.waiting_duration_ns;
}

// What is added to that of the copies that were granted already.
double Budget::copy_delay_ns(const Client& higher, Engine engine, std::int64_t end_ns, std::int64_t now_ns) const {
  const Copying& copying = copying_[higher.slot][copy_engine(engine)];
  return copying.mean_delay_ns(end_ns, now_ns) - copying.mean_delay_ns(low_copies_[copy_engine(engine)].end_ns, now_ns);
}

Hold Budget::copy_obstacle(const Client& client, std::int64_t now_ns) const {
  const std::int64_t length_ns = client.waiting_duration_ns;
  const std::int64_t end_ns = copy_end_ns(client, now_ns);
  for (const Client& higher : clients().all()) {
    const Copying& copying = copying_[higher.slot][copy_engine(client.copy)];
    if (!higher.outranks(client) || !copying.expected(now_ns)) continue;
    if (copying.longest_delay_ns(end_ns, now_ns) > higher.protection.max_delay_ns)
      return {.reason = Reason::does_not_fit, .by = higher.id};
    const double delay_ns = copy_delay_ns(higher, client.copy, end_ns, now_ns);
    const Account& account = accounts_[higher.slot];
    if (delay_ns <= options().tuning.nothing * static_cast<double>(length_ns)) continue;
    const Account::Means means = account.means(now_ns, false, higher.protection.max_slowdown);
    if (!means.affords(delay_ns, length_ns))
      return {.reason = means.covers(delay_ns) ? Reason::does_not_fit : Reason::budget_spent, .by = higher.id};
  }
  return {};
}

// A client has handed over a copy: behind a lower one, perhaps.
void Budget::copied(const Event& event, const Client& client) {
  const LowCopy& lower = low_copies_[copy_engine(event.engine)];
  if (client.priority < lower.priority && event.time_ns < lower.over_ns)
    accounts_[client.slot].copy_stands(event.time_ns, lower.end_ns);
}

void Budget::copy_done(const Event& event) {
  for (LowCopy& copy : low_copies_) {
    if (copy.client != event.client || copy.request != event.request) continue;
    copy.end_ns = std::min(copy.end_ns, event.time_ns);
    copy.over_ns = std::min(copy.over_ns, event.time_ns);
    for (const Client& higher : clients().among(clients().above(copy.priority)))
      accounts_[higher.slot].lower_copy_over(copy.granted_ns, copy.over_ns);
  }
}

Client* Budget::choose_copy(std::int64_t now_ns) {
  Ageing ages = ageing();
  Client* best = nullptr;
  for (Client& client : clients().among(sets().copying)) {
    const bool due = client.exclusive_runs || aged(client, now_ns, ages);
    const Hold why = due ? Hold{} : copy_obstacle(client, now_ns);
    hold(client, why);
    if (why.reason == Reason::none && (best == nullptr || goes_before(client, *best))) best = &client;
  }
  if (best == nullptr) return nullptr;
  const std::int64_t end_ns = copy_end_ns(*best, now_ns);
  for (const Client& higher : clients().all())
    if (higher.outranks(*best) && copying_[higher.slot][copy_engine(best->copy)].expected(now_ns))
      accounts_[higher.slot].spend_on_copy(std::max(0.0, copy_delay_ns(higher, best->copy, end_ns, now_ns)),
                                           best->waiting_duration_ns, now_ns);
  const std::int64_t over_ns = now_ns + options().lease_ns;
  low_copies_[copy_engine(best->copy)] = {.granted_ns = now_ns,
                                          .end_ns = std::min(end_ns, over_ns),
                                          .over_ns = over_ns,
                                          .client = best->id,
                                          .request = best->request,
                                          .priority = best->priority};
  return best;
}

} // namespace fikit::policy
