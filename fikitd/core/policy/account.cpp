#include "account.hpp"

#include <algorithm>

namespace fikit::policy {
namespace {

// So much later than the usual shortest idle time, no request was waiting.
constexpr std::int64_t kAtOnceNs = 50'000;
constexpr std::int64_t kLongestCopyNs = 10'000'000;
// Requests that arrive as a Poisson process and take equally long respond, on average, so many times later than they take
// (Pollaczek and Khinchine).
double response(double load) { return 1 + load / (2 * (1 - load)); }

// By how much the mean response time grows when every request takes 1 % longer, in per cent: the delay of one is felt by
// those that wait behind it, and by those that come before the queue is empty.
double growth(double load) { return 1 + load / (2 * (1 - load) * (1 - load)) / response(load); }

// The same if only those take longer that find nobody before them: nobody waits behind them yet.
double growth_at_start(double load) { return 1 / (1 - load) / response(load); }

} // namespace

void Account::earn(double progress_ns, double max_slowdown) {
  if (progress_ns > 0) balance_ns_ = std::min(balance_ns_ + max_slowdown * progress_ns, max_slowdown * tuning_->saved_ns);
}

void Account::launched(const Event& event, const Client& client, double max_slowdown) {
  if (!in_segment_) {
    const std::int64_t idle_ns = event.time_ns - since_ns_;
    (open_ ? at_rest_ns_ : active_ns_) += static_cast<double>(idle_ns);
    // Where it goes on after about the same time always but now, it waited for something: with others there, a copy of
    // theirs perhaps, which passes the gate.
    const std::int64_t usual_ns = idle_.ns.back();
    if (others_ns_ > 0 && usual_ns > 0 && usual_ns < 2 * idle_.ns.front() + 100'000)
      balance_ns_ -= weight_.inside * static_cast<double>(std::clamp<std::int64_t>(idle_ns - usual_ns, 0, kLongestCopyNs));
    in_segment_ = true;
    depth_.begin();
    first_ns_ = event.time_ns;
    alone_dry_ns_ = event.time_ns;
    earned_until_ns_ = event.time_ns;
  }
  const std::int64_t in_line_ns = alone_dry_ns_ > event.time_ns ? event.outlook.in_line_ns : 0;
  const std::int64_t length_ns = std::clamp<std::int64_t>(event.duration_ns, 0, kHorizonNs);
  alone_dry_ns_ = std::min(std::max(alone_dry_ns_, event.time_ns) + in_line_ns + length_ns, event.time_ns + kHorizonNs);
  depth_.launched(in_line_ns + length_ns);
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

  balance_ns_ += spent_ns_ - (expected_ns_ > 0 ? spent_ns_ / expected_ns_ : weight_.inside) * delay_ns;
  earn(static_cast<double>(event.time_ns - earned_until_ns_) - delay_ns, max_slowdown);
  active_ns_ += span_ns;
  open_ = outlook.open;
  see_load();

  in_segment_ = false;
  others_ns_ = 0;
  expected_ns_ = 0;
  spent_ns_ = 0;
  since_ns_ = event.time_ns;
  slack_ = outlook.slack;
  idle_ = outlook.idle;
}

void Account::see_load() {
  if (active_ns_ + at_rest_ns_ > tuning_->remembered_ns) {
    active_ns_ /= 2;
    at_rest_ns_ /= 2;
  }
  if (!open_) return;
  const double load = std::min(active_ns_ / std::max(active_ns_ + at_rest_ns_, 1.0), tuning_->highest_load);
  weight_ = {.inside = tuning_->reserve * growth(load), .start = tuning_->reserve * growth_at_start(load)};
}

double Account::expected_delay_ns(std::int64_t busy_until_ns, std::int64_t now_ns) const {
  if (in_segment_) {
    if (depth_.high(finish_ns_ - now_ns)) return static_cast<double>(busy_until_ns - now_ns); // soon its host waits
    // That the wait has not ended says something only once the client's work is done.
    const std::int64_t from_ns = now_ns < finish_ns_ ? 0 : now_ns - alone_dry_ns_;
    return slack_.mean_before(from_ns, busy_until_ns - alone_dry_ns_);
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
bool Account::affords(double delay_ns, std::int64_t length_ns, std::int64_t now_ns, bool at_work,
                      double max_slowdown) const {
  if (!covers(delay_ns, now_ns)) return false;
  const double filled = balance_ns_ / (max_slowdown * tuning_->saved_ns);
  const double price = at_work ? tuning_->cheap : tuning_->cheap + filled;
  return weight(now_ns) * delay_ns <= price * static_cast<double>(length_ns);
}

// The next request finds nobody before it, unless it has been waiting already: then it would have begun by now.
double Account::weight(std::int64_t now_ns) const {
  const bool empty = open_ && !in_segment_ && now_ns - since_ns_ > idle_.ns.front() + kAtOnceNs;
  return empty ? weight_.start : weight_.inside;
}

void Account::spend(double delay_ns, std::int64_t length_ns, std::int64_t now_ns) {
  const double spent_ns = weight(now_ns) * delay_ns;
  balance_ns_ -= spent_ns;
  spent_ns_ += spent_ns;
  expected_ns_ += delay_ns;
  others_ns_ += static_cast<double>(length_ns);
  if (in_segment_ && now_ns < finish_ns_) finish_ns_ += length_ns;
}

} // namespace fikit::policy
