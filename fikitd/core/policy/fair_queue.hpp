// Whose turn it is among equals: of a level, who has had least of the device goes first (start-time fair queueing). Who comes
// back is never far behind its equals: what it did not ask for is not saved up for it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "clients.hpp"
#include "rows.hpp"
#include "tournament.hpp"
#include "tuning.hpp"

namespace fikit::policy {

class FairQueue {
 public:
  FairQueue(const ClientTable& clients, const Tuning& tuning) : clients_(clients), tuning_(tuning) {}

  void learn(const FairQueue& other) { served_ns_ = other.served_ns_, level_ns_ = other.level_ns_, known_ = false; }
  void came(const Client& client);
  void went() { known_ = false; }
  void waits(const Client& client);                     // at the gate now
  void served(const Client& client, std::int64_t ns); // it waits no more

  bool goes_before(const Client& a, const Client& b) const;
  // Has it had so much more than an equal whose kernel runs (nullptr: none does) that it waits for that one's next kernel?
  bool goes_after(const Client& client, const Client* running) const {
    return running != nullptr && running != &client && served_ns_[client.slot] > limit_ns(*running);
  }
  // The same of these, of its level, which wait.
  Rows go_after(const Rows& rows, const Client& running) const;
  // Of those of a level that wait, who has had least, by row; kMaxClients: nobody waits.
  std::size_t first(int priority);
  // Of these, which wait, one at least; of equals the first.
  std::size_t first(const Rows& rows) const;
  bool had_less(std::size_t row, std::size_t other) const { return line_.key(row) < line_.key(other); }

 private:
  double limit_ns(const Client& running) const { return served_ns_[running.slot] + tuning_.behind_ns; }
  void put(const Client& client);
  void know();
  void see_most(const Client& client) {
    double& most_ns = most_ns_[static_cast<std::size_t>(client.priority)];
    most_ns = std::max(most_ns, served_ns_[client.slot]);
  }

  const ClientTable& clients_;
  const Tuning& tuning_;
  std::array<double, kMaxClients> served_ns_{}; // by slot: of the device, since it came; never far behind its equals
  std::array<double, 10> level_ns_{};           // by priority: what the last one served had been served
  std::array<double, 10> most_ns_{};            // by priority: nobody who is there has been served more
  Tournament<Earliest, kMaxClients> line_;      // who waits, and others that have waited, by what they were served
  bool known_ = false;                          // false: rows have moved, and line_ and most_ns_ are of no use
};

} // namespace fikit::policy
