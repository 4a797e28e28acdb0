#include "account.hpp"

#include <algorithm>

namespace fikit::policy {
namespace {

// So much progress may be saved up for: a long kernel's delay comes at once.
constexpr double kSavedNs = 600e6;
// A delay of this share of the lower kernel's length is cheap: it is paid whenever there is budget.
constexpr double kCheap = 0.02;
// More was lost than expected, by more than this share of what was granted: trust the slack less; else slowly more.
constexpr double kUnexpected = 0.02;
constexpr double kLessTrust = 0.85;
constexpr double kMoreTrust = 0.003;
constexpr double kLeastTrust = 0.25;
// Load is what was seen in about this time. Above kHighestLoad it cannot be told from a client that is never idle.
constexpr double kRememberedNs = 30e9;
constexpr double kHighestLoad = 0.75;
constexpr std::int64_t kLongestCopyNs = 10'000'000;
// Arrivals of a given load queue more in some minutes than in others.
constexpr double kReserve = 1.2;

// By how much the mean response time of a queue with Poisson arrivals grows when every request takes 1 % longer, in per
// cent: the delay of one is felt by those behind it (Pollaczek and Khinchine, constant service time).
double growth_of_response(double load) {
  const double idle = 1 - load;
  return 1 + load / (2 * idle * idle) / (1 + load / (2 * idle));
}

} // namespace

void Account::earn(double progress_ns, double max_slowdown) {
  if (progress_ns > 0) balance_ns_ = std::min(balance_ns_ + max_slowdown * progress_ns, max_slowdown * kSavedNs);
}

void Account::launched(const Event& event, const Client& client, double max_slowdown) {
  if (!in_segment_) {
    const std::int64_t idle_ns = event.time_ns - since_ns_;
    at_rest_ns_ += static_cast<double>(idle_ns);
    // Where it goes on after about the same time always but now, it waited for something: with others there, a copy of
    // theirs perhaps, which passes the gate.
    const std::int64_t usual_ns = idle_.ns.back();
    if (others_ns_ > 0 && usual_ns > 0 && usual_ns < 2 * idle_.ns.front() + 100'000)
      balance_ns_ -= weight_ * static_cast<double>(std::clamp<std::int64_t>(idle_ns - usual_ns, 0, kLongestCopyNs));
    in_segment_ = true;
    first_ns_ = event.time_ns;
    alone_dry_ns_ = event.time_ns;
    earned_until_ns_ = event.time_ns;
  }
  const std::int64_t in_line_ns = alone_dry_ns_ > event.time_ns ? event.outlook.in_line_ns : 0;
  const std::int64_t length_ns = std::clamp<std::int64_t>(event.duration_ns, 0, kHorizonNs);
  alone_dry_ns_ = std::min(std::max(alone_dry_ns_, event.time_ns) + in_line_ns + length_ns, event.time_ns + kHorizonNs);
  last_ns_ = event.time_ns;
  finish_ns_ = client.progress.finish_ns();
  slack_ = event.outlook.slack;
  if (slack_.ns.back() == 0) slack_.ns.fill(std::max<std::int64_t>(event.gap_ns, 0)); // never seen
  earn(static_cast<double>(event.time_ns - earned_until_ns_), max_slowdown);
  earned_until_ns_ = event.time_ns;
}

void Account::waited(const Event& event, double max_slowdown) {
  if (!in_segment_) return; // it waited for nothing
  const Outlook& outlook = event.outlook;
  const auto span_ns = static_cast<double>(event.time_ns - first_ns_);
  // Alone it would have ended when its work had, but not before the host came to wait.
  const std::int64_t alone_ns = std::max(alone_dry_ns_, last_ns_ + std::max<std::int64_t>(outlook.tail_ns, 0));
  auto delay_ns = static_cast<double>(std::min(finish_ns_, event.time_ns) - alone_ns);
  if (outlook.span_ns >= 0) delay_ns = std::max(delay_ns, span_ns - static_cast<double>(outlook.span_ns));
  delay_ns = std::clamp(delay_ns, 0.0, others_ns_);

  balance_ns_ += weight_ * (expected_ns_ - delay_ns);
  earn(static_cast<double>(event.time_ns - earned_until_ns_) - delay_ns, max_slowdown);
  if (inside_ns_ > 0) {
    const bool unexpected = delay_ns > expected_ns_ + kUnexpected * others_ns_;
    trust_ = unexpected ? std::max(kLeastTrust, trust_ * kLessTrust) : std::min(1.0, trust_ + kMoreTrust);
  }
  active_ns_ += span_ns;
  see_load(outlook.open);

  in_segment_ = false;
  others_ns_ = 0;
  inside_ns_ = 0;
  expected_ns_ = 0;
  since_ns_ = event.time_ns;
  slack_ = outlook.slack;
  idle_ = outlook.idle;
}

void Account::see_load(bool open) {
  if (active_ns_ + at_rest_ns_ > kRememberedNs) {
    active_ns_ /= 2;
    at_rest_ns_ /= 2;
  }
  if (!open) return;
  const double load = active_ns_ / std::max(active_ns_ + at_rest_ns_, 1.0);
  weight_ = kReserve * growth_of_response(std::min(load, kHighestLoad));
}

double Account::expected_delay_ns(std::int64_t busy_until_ns, std::int64_t now_ns) const {
  if (in_segment_) {
    const auto taken_ns = static_cast<double>(busy_until_ns - alone_dry_ns_) / trust_;
    return slack_.mean_before(now_ns - alone_dry_ns_, static_cast<std::int64_t>(taken_ns));
  }
  return idle_.mean_before(now_ns - since_ns_, busy_until_ns - slack_.low_ns() - since_ns_);
}

std::int64_t Account::longest_delay_ns(std::int64_t busy_until_ns, std::int64_t now_ns) const {
  const std::int64_t from_ns = in_segment_ ? std::max(alone_dry_ns_, now_ns - slack_.ns.front()) : now_ns;
  return std::max<std::int64_t>(0, busy_until_ns - from_ns - slack_.ns.front());
}

// Delays are not all worth their price: the fuller the budget, the higher the price at which lower work is bought. So it is
// bought where it is cheap, and a kernel that always costs much is bought where it costs least. While the client has work
// on the device, only what is nearly free: waiting for its next gap costs nothing.
bool Account::affords(double delay_ns, std::int64_t length_ns, bool at_work, double max_slowdown) const {
  if (!covers(delay_ns)) return false;
  const double filled = balance_ns_ / (max_slowdown * kSavedNs);
  const double price = at_work ? kCheap : kCheap + filled * filled * filled;
  return delay_ns <= price * static_cast<double>(length_ns);
}

void Account::spend(double delay_ns, std::int64_t length_ns) {
  balance_ns_ -= weight_ * delay_ns;
  expected_ns_ += delay_ns;
  others_ns_ += static_cast<double>(length_ns);
  if (in_segment_) inside_ns_ += static_cast<double>(length_ns);
}

} // namespace fikit::policy
