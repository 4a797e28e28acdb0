// Kernel-boundary priority without prediction of gaps: a lower client launches only when no higher one has work waiting
// or running, and at most one lower kernel is in flight. The baseline that `fikit` must beat.
#pragma once

#include "policy.hpp"

namespace fikit::policy {

class Prio final : public Policy {
 public:
  using Policy::Policy;

 private:
  bool outranks(const Client& higher, const Client& lower) const override { return higher.priority < lower.priority; }
  Client* choose(std::int64_t now_ns) override;
  std::int64_t next_change_ns(std::int64_t now_ns) const override;
};

} // namespace fikit::policy
