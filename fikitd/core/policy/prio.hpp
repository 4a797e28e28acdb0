// Kernel-boundary policies, which predict no gap: a lower client launches only while every higher one has nothing waiting
// or running, with so many of the lower kernels in flight. The baselines that a policy with prediction must beat.
#pragma once

#include "level_policy.hpp"

namespace fikit::policy {

struct Boundary {
  std::size_t in_flight = 1;   // lower kernels, of all lower clients together
  std::int64_t idle_ns = 0;    // after the higher client's work ended
  bool whole_request = false;  // not before the higher client's host has waited for all its work: between its requests
};

// prio(k): {k}. Request-exclusive: whole_request. Tally (ASPLOS'25) without its slicing of kernels: {1, 100 us}.
class Prio final : public LevelPolicy {
 public:
  explicit Prio(const Options& options, const Boundary& boundary = {}) : LevelPolicy(options), boundary_(boundary) {}

 private:
  Client* choose(std::int64_t now_ns) override;
  std::int64_t next_change_ns(std::int64_t now_ns) const override;
  bool holds(const Client& higher, std::int64_t now_ns) const;

  Boundary boundary_;
};

} // namespace fikit::policy
