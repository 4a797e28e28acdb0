// The paper's policy (FIKIT, arXiv 2311.10359): lower-priority kernels fill the predicted idle time between the kernels of
// a higher-priority client, the longest that fits first (BestPrioFit); the holder's next launch stops it early.
//
// What the paper leaves open, decided here:
//  - A kernel of unknown length, or one that waits for others of its job, never fills a gap.
//  - A client whose gap outlasts its prediction by idle_after_ns, or lasts idle_after_ns without prediction, or lasts
//    lease_ns whatever the prediction, counts as idle until it launches again. While all higher clients are idle, lower
//    ones run in turn with at most run_ahead_ns of predicted work in flight; a longer kernel, or one of unknown length,
//    runs when nothing else is in flight.
//  - Work of unknown length counts as running for at most lease_ns after the last launch without a drain.
//  - Levels are relative: with clients of 1, 5 and 8 the middle one fills the gaps of the first and has its own filled by
//    the last. A waiting client that does not fit the open gap does not keep lower ones from filling it.
#pragma once

#include "policy/base/level_policy.hpp"

namespace fikit::policy {

class Paper final : public LevelPolicy {
 public:
  using LevelPolicy::LevelPolicy;

 private:
  // What the clients above a level allow to it now.
  struct Room {
    const Client* blocked_by = nullptr; // runs, or is about to launch
    std::int64_t gap_end_ns = kNever;   // the earliest end of their predicted gaps; kNever: none is in a gap
    const Client* gap_of = nullptr;
    bool idle = false; // one of them is idle: run ahead only so far
  };
  // The lower work in flight.
  struct Lower {
    std::int64_t free_ns = 0;        // its end, at least now
    const Client* last = nullptr;    // whose work ends then; nullptr: none is in flight
    const Client* unclear = nullptr; // whose end cannot be said
  };

  Client* choose(std::int64_t now_ns) override;
  std::int64_t next_change_ns(std::int64_t now_ns) const override;

  Room room_above(int priority, std::int64_t now_ns) const;
  std::int64_t idle_at_ns(const Client& client) const;
  Lower lower_work(std::int64_t now_ns) const;
  // Why this client's request may not go now, Reason::none when it may.
  WaitReason obstacle(const Client& client, const Room& room, std::int64_t now_ns, const Lower& lower) const;
  Client* best_of_level(int priority, const Room& room, std::int64_t now_ns, const Lower& lower);
  void hold_below(int priority, const WaitReason& why); // and at it
};

} // namespace fikit::policy
