// No sharing: a lower client launches nothing while a higher one is registered.
#pragma once

#include "policy/base/level_policy.hpp"

namespace fikit::policy {

class Exclusive final : public LevelPolicy {
 public:
  using LevelPolicy::LevelPolicy;

 private:
  Client* choose(std::int64_t) override {
    hold_waiting([first = first_id()](const Client&) { return WaitReason{.reason = Reason::behind, .by = first}; });
    return nullptr;
  }
  std::int64_t next_change_ns(std::int64_t) const override { return kNever; }
};

} // namespace fikit::policy
