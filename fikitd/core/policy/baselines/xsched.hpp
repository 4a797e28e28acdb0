// XSched (OSDI'25), level 1: while no higher client has work, a lower one runs ahead with up to `threshold` launches in
// flight, whose completion it learns once per `batch`. When a higher client is ready again, what is in flight drains
// beside it; nothing further is launched.
#pragma once

#include <array>

#include "policy/base/level_policy.hpp"

namespace fikit::policy {

class XSched final : public LevelPolicy {
 public:
  XSched(const Options& options, std::size_t threshold, std::size_t batch)
      : LevelPolicy(options), threshold_(threshold), batch_(batch) {}

 private:
  void learn(const LevelPolicy& higher) override;
  void noted(const Event& event, const Client& client) override;
  Client* choose(std::int64_t now_ns) override;
  std::int64_t next_change_ns(std::int64_t now_ns) const override;

  std::size_t threshold_; // at most kMaxGrants
  std::size_t batch_;
  std::array<std::size_t, kMaxClients> unnoticed_{}; // completed in a batch that is not complete; by slot
};

} // namespace fikit::policy
