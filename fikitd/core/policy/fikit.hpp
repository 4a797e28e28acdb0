// The paper's policy (FIKIT, arXiv 2311.10359): lower-priority kernels fill the predicted idle time between the kernels of
// a higher-priority client, the longest that fits first (BestPrioFit); the holder's next launch stops it early.
//
// What the paper leaves open, decided here:
//  - A kernel of unknown length never fills a gap.
//  - A client whose gap outlasts its prediction by idle_after_ns, or lasts idle_after_ns without prediction, or lasts
//    lease_ns whatever the prediction, counts as idle until it launches again. While all higher clients are idle, lower
//    ones run in turn with at most run_ahead_ns of predicted work in flight; a longer kernel, or one of unknown length,
//    runs when nothing else is in flight.
//  - Work of unknown length counts as running for at most lease_ns after the last launch without a drain.
//  - Levels are relative: with clients of 1, 5 and 8 the middle one fills the gaps of the first and has its own filled by
//    the last. A waiting client that does not fit the open gap does not keep lower ones from filling it.
#pragma once

#include <optional>

#include "policy.hpp"

namespace fikit::policy {

class Fikit final : public Policy {
 public:
  using Policy::Policy;

 private:
  // What the clients above a level allow to it now.
  struct Room {
    bool blocked = false;            // one of them runs, or is about to launch
    std::int64_t gap_end_ns = kNever; // the earliest end of their predicted gaps; kNever: none is in a gap
    bool idle = false;               // one of them is idle: run ahead only so far
  };

  Client* choose(std::int64_t now_ns) override;
  std::int64_t next_change_ns(std::int64_t now_ns) const override;

  Room room_above(int priority, std::int64_t now_ns) const;
  std::int64_t idle_at_ns(const Client& client) const;
  bool fits(const Client& client, const Room& room, std::int64_t now_ns, std::int64_t free_ns) const;
  // End of lower-priority work in flight (at least now); nothing when that cannot be said.
  std::optional<std::int64_t> lower_free_ns(std::int64_t now_ns) const;
};

} // namespace fikit::policy
