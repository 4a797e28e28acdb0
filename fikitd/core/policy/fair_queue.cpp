#include "fair_queue.hpp"

#include <bit>
#include <utility>

namespace fikit::policy {
namespace {

// What a client was served is not negative, and such numbers are in the order of their bits.
std::int64_t in_order(double served_ns) { return std::bit_cast<std::int64_t>(served_ns); }

} // namespace

void FairQueue::came(const Client& client) {
  served_ns_[client.slot] = 0;
  known_ = false;
}

void FairQueue::waits(const Client& client) {
  const double level_ns = level_ns_[static_cast<std::size_t>(client.priority)];
  double& served_ns = served_ns_[client.slot];
  if (client.grant_count == 0) served_ns = std::max(served_ns, level_ns - tuning_.behind_ns);
  see_most(client);
  put(client);
}

void FairQueue::served(const Client& client, std::int64_t ns) {
  double& served_ns = served_ns_[client.slot];
  served_ns += static_cast<double>(ns);
  level_ns_[static_cast<std::size_t>(client.priority)] = served_ns;
  see_most(client);
  if (known_) line_.set(clients_.row(client), kNever);
}

bool FairQueue::goes_before(const Client& a, const Client& b) const {
  if (a.priority != b.priority) return a.priority < b.priority;
  const double served_a = served_ns_[a.slot];
  const double served_b = served_ns_[b.slot];
  return served_a != served_b ? served_a < served_b : a.id < b.id; // whatever order the table is in
}

Rows FairQueue::go_after(const Rows& rows, const Client& running) const {
  const std::int64_t limit = in_order(limit_ns(running));
  if (most_ns_[static_cast<std::size_t>(running.priority)] <= limit_ns(running)) return {};
  return rows.where([&](std::size_t row) { return line_.key(row) > limit; });
}

void FairQueue::put(const Client& client) {
  if (known_) line_.set(clients_.row(client), client.waiting ? in_order(served_ns_[client.slot]) : kNever);
}

void FairQueue::know() {
  if (std::exchange(known_, true)) return;
  line_.clear(clients_.span().size());
  most_ns_.fill(0);
  for (const Client& client : clients_.span()) see_most(client);
  for (const Client& client : clients_.among(clients_.index().sets().waiting)) put(client);
}

std::size_t FairQueue::first(int priority) {
  know();
  for (;;) {
    const std::size_t row = line_.best_row(clients_.first_of(priority), clients_.first_below(priority));
    if (row == line_.size()) return kMaxClients;
    if (clients_.index().sets().waiting.has(row)) return row;
    line_.set(row, kNever); // it has gone
  }
}

std::size_t FairQueue::first(const Rows& rows) const {
  return rows.least([&](std::size_t row) { return line_.key(row); });
}

} // namespace fikit::policy
