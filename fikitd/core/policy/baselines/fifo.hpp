// Default sharing: every gate is open, the device serves launches as they arrive.
#pragma once

#include "policy/base/level_policy.hpp"

namespace fikit::policy {

class Fifo final : public LevelPolicy {
 public:
  using LevelPolicy::LevelPolicy;

 private:
  bool gates() const override { return false; }
  Client* choose(std::int64_t) override { return nullptr; }
  std::int64_t next_change_ns(std::int64_t) const override { return kNever; }
};

} // namespace fikit::policy
