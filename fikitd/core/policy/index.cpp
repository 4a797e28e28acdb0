#include "index.hpp"

#include "clients.hpp"

namespace fikit::policy {

void Index::begin(std::span<const Client> clients, std::int64_t passed_ns) {
  passed_ns_ = passed_ns;
  sets_ = {};
  finish_.clear(clients.size());
  dry_.clear(clients.size());
  forget_.clear(clients.size());
  since_.clear(clients.size());
  by_length_ = {};
  by_run_ = {};
  for (std::size_t row = 0; row < clients.size(); ++row) put(row, clients[row]);
}

void Index::put(std::size_t row, const Client& client) {
  put_standing(row, client);
  put_work(row, client);
}

void Index::put_standing(std::size_t row, const Client& client) {
  sets_.measuring.set(row, client.measuring);
  sets_.closed.set(row, client.closed);
  sets_.exclusive.set(row, client.exclusive_runs);
  sets_.guarded.set(row, client.protection.max_delay_ns != kNever);
  sets_.patient.set(row, client.patient);
}

void Index::put_work(std::size_t row, const Client& client) {
  sets_.waiting.set(row, client.waits_here());
  sets_.elsewhere.set(row, client.waiting && !client.waits_here());
  sets_.copying.set(row, client.copy != Engine::compute && client.decided == Decided::here);
  sets_.granted.set(row, client.grant_count > 0);
  sets_.running.set(row, client.run.launches > 0 && client.decided == Decided::here);
  sets_.unknown.set(row, client.progress.uncertain());
  const std::int64_t dry_ns = client.progress.dry_ns();
  finish_.set(row, client.measuring ? Latest::kNone : client.progress.finish_ns());
  dry_.set(row, client.measuring || dry_ns <= passed_ns_ ? kNever : dry_ns);
  forget_.set(row, client.forget_ns());
  since_.set(row, client.at_gate() ? client.waiting_since_ns : kNever);
  const bool plain = client.waits_here() && client.waiting_duration_ns >= 0 && !client.waiting_exclusive && client.grant_count < kMaxGrants;
  const std::int64_t length_ns = plain ? client.cautious_ns : kUnknown;
  const std::int64_t run_ns = plain && client.run_launches > 1 ? client.run_ns : length_ns;
  by_length_.put(row, length_ns);
  by_run_.put(row, run_ns);
  sets_.run.set(row, run_ns != length_ns);
}

void Index::pass(std::int64_t now_ns) {
  passed_ns_ = now_ns;
  while (dry_.best() <= now_ns) dry_.set(dry_.best_row(), kNever);
}

} // namespace fikit::policy
