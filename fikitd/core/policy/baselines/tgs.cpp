#include "tgs.hpp"

#include <algorithm>

namespace fikit::policy {
namespace {

constexpr std::int64_t kPeriodNs = 50'000'000;
constexpr int kReferencePeriods = 4;    // at first the highest clients run alone: their rate then is the reference
constexpr double kFirstLimit = 10;      // launches in a period
constexpr double kTolerance = 0.03;     // below the reference
constexpr double kCollapse = 0.09;      // so much below it: start anew
constexpr double kSlowStartFactor = 1.5;
constexpr double kGrowth = 1.00025;
constexpr double kShrink = 0.92;
constexpr double kRestart = 0.1;

} // namespace

void Tgs::noted(const Event& event, const Client& client) {
  if (event.kind == EventKind::launched && !client.closed && !client.measuring) ++high_launches_;
  if (period_end_ns_ == 0) period_end_ns_ = event.time_ns + kPeriodNs;
}

void Tgs::learn(const LevelPolicy& higher) {
  LevelPolicy::learn(higher);
  const auto& other = static_cast<const Tgs&>(higher);
  period_end_ns_ = other.period_end_ns_;
  periods_ = other.periods_;
  high_launches_ = other.high_launches_;
  low_launches_ = other.low_launches_;
  reference_ = other.reference_;
  limit_ = other.limit_;
  slow_start_ = other.slow_start_;
}

// What other levels are granted is launched in the same period.
void Tgs::noted_given(const Given& given, const Client&, std::int64_t) {
  if (given.kind == Given::Kind::launches) ++low_launches_;
}

void Tgs::adjust(double rate) {
  if (rate < (1 - kCollapse) * reference_) {
    limit_ = std::max(1.0, limit_ * kRestart);
    slow_start_ = true;
  } else if (rate < (1 - kTolerance) * reference_) {
    limit_ = std::max(1.0, limit_ * kShrink);
    slow_start_ = false;
  } else {
    limit_ *= slow_start_ ? kSlowStartFactor : kGrowth;
  }
}

void Tgs::end_period(std::int64_t now_ns) {
  if (period_end_ns_ == 0 || now_ns < period_end_ns_) return;
  if (periods_ < kReferencePeriods) {
    reference_ = std::max(reference_, high_launches_);
    limit_ = ++periods_ == kReferencePeriods ? kFirstLimit : 0;
  } else {
    adjust(high_launches_);
    limit_ = std::min(limit_, 1e9);
  }
  period_end_ns_ += (now_ns - period_end_ns_) / kPeriodNs * kPeriodNs + kPeriodNs;
  high_launches_ = 0;
  low_launches_ = 0;
}

Client* Tgs::choose(std::int64_t now_ns) {
  end_period(now_ns);
  Client* best = first_waiting(now_ns);
  if (best == nullptr) return nullptr;
  const bool limited = low_launches_ + 1 > limit_;
  if (limited || best->grant_count == kMaxGrants || !best->waits_here()) {
    hold_waiting([&, first = first_id()](const Client& client) {
      if (limited) return WaitReason{.reason = Reason::limit, .by = first};
      return &client == best ? WaitReason{.reason = Reason::run_ahead, .by = best->id} : after(*best, client);
    });
    return nullptr;
  }
  ++low_launches_;
  return best;
}

std::int64_t Tgs::next_change_ns(std::int64_t now_ns) const {
  return std::min(next_end_ns(now_ns), std::max(period_end_ns_, now_ns + 1));
}

} // namespace fikit::policy
