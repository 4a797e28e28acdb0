// Rate control without any profile, after TGS (NSDI'23): a lower client may launch so many kernels in a period; the limit
// grows while the higher client launches as fast as it did alone, and shrinks when it does not.
#pragma once

#include "policy/base/level_policy.hpp"

namespace fikit::policy {

class Tgs final : public LevelPolicy {
 public:
  using LevelPolicy::LevelPolicy;

 private:
  void learn(const LevelPolicy& higher) override;
  void noted(const Event& event, const Client& client) override;
  void noted_given(const Given& given, const Client& client, std::int64_t now_ns) override;
  Client* choose(std::int64_t now_ns) override;
  std::int64_t next_change_ns(std::int64_t now_ns) const override;
  void end_period(std::int64_t now_ns);
  void adjust(double rate);

  std::int64_t period_end_ns_ = 0;
  int periods_ = 0;
  double high_launches_ = 0; // in this period, of the highest clients
  double low_launches_ = 0;  // in this period, granted
  double reference_ = 0;     // the highest clients' launches in a period without others
  double limit_ = 0;
  bool slow_start_ = true;
};

} // namespace fikit::policy
