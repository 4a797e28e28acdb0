#include "audit.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace fikit::policy::budget {

void Audit::Kind::learn(const Wait& wait) {
  waits += 1;
  const double weight = 1 / std::min<double>(waits, kRemembered);
  const double off_ns = wait.blocked_ns - mean_ns;
  mean_ns += weight * off_ns;
  if (waits > 1 && !deceived()) variance += weight * (off_ns * off_ns - variance);
  if (!wait.certain) return;
  certain_waits += 1;
  certain_ns += (wait.blocked_ns - certain_ns) / std::min<double>(certain_waits, kRemembered);
}

void Audit::Kind::see_beside(double blocked_ns) {
  beside.least_ns = beside.waits == 0 ? blocked_ns : std::min(beside.least_ns, blocked_ns);
  beside.waits += 1;
  beside.mean_ns += (blocked_ns - beside.mean_ns) / std::min<double>(beside.waits, kRemembered);
}

bool Audit::Kind::lacks_reference() const {
  return waits < kEnough && beside.waits >= kOften && beside.mean_ns > kSlower * beside.least_ns + kInexactNs;
}

// Waits are of one kind if the host launched as much before the wait, and as much before the wait before. No prediction enters: a
// predictor that is wrong must not make kinds of its own.
Audit::Kind& Audit::kind(const Wait& wait) {
  const bool open = std::exchange(open_, wait.open);
  const std::uint32_t key = 1 + wait.launches * 2654435761U + launches_before_ * 40503U * 65537U + (open ? 7919U : 0U);
  launches_before_ = wait.launches;
  Kind& kind = kinds_[(key ^ (key >> 17)) % kinds_.size()];
  if (kind.key != key) kind = Kind{}, kind.key = key;
  return kind;
}

void Audit::Late::add(double late_ns, double charged_ns) {
  if (waits >= kLatelyWaits) waits /= 2, this->late_ns /= 2, this->charged_ns /= 2;
  waits += 1;
  this->late_ns += std::max(0.0, late_ns);
  this->charged_ns += charged_ns;
}

bool Audit::late_by_itself() const {
  return closed_.waits >= kTrial && beside_.waits > 0 && beside_.rate_ns() - closed_.rate_ns() < beside_.charged_ns / beside_.waits / 2;
}

double Audit::waited(const Wait& wait) {
  Kind& kind = this->kind(wait);
  const bool reference = wait.certain || (wait.clean && !kind.deceived());
  const double late_ns = kind.waits < kEnough ? wait.delay_ns : wait.blocked_ns - kind.reference_ns();
  const double excess_ns = reference ? 0 : compare(wait, kind);
  (reference ? closed_ : beside_).add(late_ns, wait.delay_ns + excess_ns);
  if (wait.clean) kind.learn(wait);
  else kind.see_beside(wait.blocked_ns);
  lacks_ = kind.lacks_reference();
  return excess_ns;
}

double Audit::compare(const Wait& wait, const Kind& kind) {
  if (kind.waits < kEnough) return 0;
  const double excess_ns = wait.blocked_ns - kind.reference_ns() - wait.delay_ns;
  excess_ns_ += excess_ns;
  largest_ns_ = std::max(largest_ns_, excess_ns);
  variance_ += kind.variance * (1 + 1 / static_cast<double>(kind.waits)) + kInexactNs * kInexactNs;
  blocked_ns_ += wait.blocked_ns;
  if (excess_ns_ - largest_ns_ > kSure * std::sqrt(variance_) + kSlow * blocked_ns_) {
    variance_ = blocked_ns_ = largest_ns_ = 0;
    return std::exchange(excess_ns_, 0);
  }
  if (excess_ns_ < 0 || blocked_ns_ > kLongestNs) excess_ns_ /= 2, largest_ns_ /= 2, variance_ /= 4, blocked_ns_ /= 2;
  return 0;
}

} // namespace fikit::policy::budget
