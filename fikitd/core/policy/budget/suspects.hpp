// Which of several lower clients has cost a higher client so much that lower work stopped? After the stop they come back one at a time. A
// stop that begins in a client's turn is that client's fault: the client is kept for a while longer, and the others go on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "policy/base/client_set.hpp"
#include "policy/base/events.hpp"

namespace fikit::policy::budget {

// By slot. One higher client at a time finds out; a stop of another one meanwhile is a stop and no more.
class Suspects {
 public:
  // Lower work of the client was granted.
  void granted(std::size_t slot) { recent_.set(slot, true), worked_ |= slot == turn_; }
  void gone(std::size_t slot);

  // A stop of the higher client begins; below: the clients that it outranks.
  void stops(ClientId higher, const ClientSet& below, std::int64_t now_ns);
  // The stop is over. Returns whether a client's turn begins.
  bool goes_on(ClientId higher, std::int64_t now_ns);
  // A wait of the higher client is over, and there is no stop. Returns whether a client's turn begins.
  bool waited(ClientId higher, std::int64_t now_ns);
  void higher_gone(ClientId higher) { if (higher == higher_) end(); }

  bool any() const { return higher_ != 0 || guilty_.any(); }
  // The higher client for whose sake nothing is granted now to the client of this slot, which it outranks; 0: none.
  ClientId keeps(std::size_t slot, std::int64_t now_ns) const;

 private:
  static constexpr std::int64_t kTurnNs = 500'000'000;          // in which a full budget is earned that a fault uses up
  static constexpr std::int64_t kIdleTurnNs = 250'000'000;      // the next turn comes sooner if the client is granted nothing for so long
  static constexpr std::int64_t kGuiltyNs = 20'000'000'000;     // as long as the longest stop
  bool next(std::int64_t now_ns);
  void end() { higher_ = 0, turn_ = kMaxClients, suspects_ = {}; }

  ClientSet recent_;   // clients that were granted work since the last stop
  ClientSet suspects_; // those of them whose turn has not come yet
  ClientSet guilty_;
  struct Guilt {
    std::int64_t until_ns = 0;
    ClientId by = 0;
  };
  std::array<Guilt, kMaxClients> guilts_{};
  ClientId higher_ = 0;              // 0: nobody finds out
  std::size_t turn_ = kMaxClients;   // whose turn it is; kMaxClients: nobody's
  std::int64_t since_ns_ = 0;        // when the turn began
  bool worked_ = false;              // in the turn
};

} // namespace fikit::policy::budget
