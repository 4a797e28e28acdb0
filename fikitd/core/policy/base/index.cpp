#include "index.hpp"

#include "clients.hpp"

namespace fikit::policy {

void Index::begin(std::span<const Client> clients, std::int64_t passed_ns) {
  passed_ns_ = passed_ns;
  sets_ = {};
  finish_.clear(clients.size());
  dry_.clear(clients.size());
  forget_.clear(clients.size());
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
}

void Index::pass(std::int64_t now_ns) {
  passed_ns_ = now_ns;
  while (dry_.best() <= now_ns) dry_.set(dry_.best_row(), kNever);
}

} // namespace fikit::policy
