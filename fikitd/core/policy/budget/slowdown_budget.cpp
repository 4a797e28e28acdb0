#include "slowdown_budget.hpp"

#include <cmath>
#include <numbers>
#include <utility>

namespace fikit::policy::budget {
namespace {

// How many requests feel a delay of one of them, if they arrive as a Poisson process and take equally long (Pollaczek, Khinchine).
double affected_inside(double load) { return 0.5 + 0.5 / ((1 - load) * (1 - load)); }
double affected_from_start(double load) { return 1 / (1 - load); }

// For how many lengths of a request n requests have waited, all together, that came at random and were served without a pause: the sum
// of (n - 1) / 2 and the mean displacement of a parking function of size n - 1, within 5 %.
double waited_together(double n) { return std::sqrt(std::numbers::pi / 8) * n * (std::sqrt(n) - 1); }

} // namespace

void SlowdownBudget::begin(std::int64_t now_ns, const Tuning& tuning, double max_slowdown) {
  *this = SlowdownBudget{};
  since_ns_ = now_ns, tuning_ = &tuning, max_slowdown_ = max_slowdown;
  earn(tuning.advance_ns);
}

double SlowdownBudget::full_ns() const { return max_slowdown_ * tuning_->saved_ns * (arrivals_ ? tuning_->arrivals_saved : 1); }

// After a stop, or much excess, a client saves up half as much: what is unknown is feared then.
void SlowdownBudget::earn(double progress_ns) {
  const double most_ns = full_ns() * (doubted_ns_ > 0 ? 0.5 : 1);
  balance_ns_ = std::min(balance_ns_ + share_of(std::max(progress_ns, 0.0)), most_ns);
}

// If the client stays away longer than expected, it takes that time by itself: it earns budget by it as by progress, which pays for a
// delay at its return.
double SlowdownBudget::away_ns(std::int64_t now_ns) const {
  constexpr std::int64_t kLonger = 2;
  const std::int64_t longest_ns = in_segment_ ? slack_.ns.back() : idle_.ns.back();
  const std::int64_t left_ns = in_segment_ ? std::max(finish_ns_, alone_dry_ns_) + behind_ns_ : since_ns_;
  constexpr double kStartUpNs = 5e9; // for how long a program starts of which nothing is known yet
  // Requests from outside come at random: such a client is away once it has been idle for longer than it was at work lately.
  const double doubt_ns = fresh_ ? kStartUpNs : std::max(arrivals_ ? active_ns_ : 0, tuning_->lately_ns);
  return std::max(0.0, static_cast<double>(now_ns - left_ns - kLonger * longest_ns) - doubt_ns);
}

void SlowdownBudget::launched(const Event& event, const Client& client) {
  ++launches_;
  if (!in_segment_) begin_segment(event.time_ns);
  const std::int64_t in_line_ns = alone_dry_ns_ > event.time_ns ? event.outlook.in_line_ns : 0;
  depth_.launched(in_line_ns + std::clamp<std::int64_t>(event.duration_ns, 0, kHorizonNs));
  alone_dry_ns_ = std::max(event.outlook.alone_dry_ns, event.time_ns);
  seen(client);
  slack_ = event.outlook.slack;
  if (slack_.ns.back() == 0) slack_.ns.fill(std::max<std::int64_t>(event.gap_ns, 0)); // never seen
  earn(static_cast<double>(event.time_ns - earned_until_ns_));
  earned_until_ns_ = event.time_ns;
}

void SlowdownBudget::begin_segment(std::int64_t now_ns) {
  const std::int64_t idle_ns = now_ns - since_ns_;
  (open_ ? at_rest_ns_ : active_ns_) += static_cast<double>(idle_ns);
  if (found_nobody(now_ns)) {
    carried_ns_ = 0;
    queue_ = {.begin_ns = now_ns};
  }
  const double stood_ns = copies_ns(idle_ns);
  carried_ns_ += stood_ns;
  const double away_ns = this->away_ns(now_ns);
  paid_away_ns_ = arrivals_ ? 0 : share_of(away_ns);
  earn(away_ns);
  // Between two waits of a request the host itself works on the request: that is progress.
  if (!open_ && !fresh_) earn(static_cast<double>(std::min(idle_ns, idle_.ns.back())) - stood_ns);
  in_segment_ = true;
  behind_ns_ = 0;
  fresh_ = false;
  depth_.begin();
  first_ns_ = alone_dry_ns_ = earned_until_ns_ = now_ns;
}

// By how much lower clients' copies delayed the client between two waits. A host that goes on later than it always does has waited for
// something: with lower work there perhaps for a short copy, which fikitd does not see, or for one that stood behind a long copy of a
// lower client.
double SlowdownBudget::copies_ns(std::int64_t idle_ns) const {
  constexpr std::int64_t kShortCopiesNs = 10'000'000; // a host that is later still has had something else to do
  const std::int64_t lately_ns = idle_.usual_ns();
  const bool regular = !open_ && lately_ns > 0;
  const std::int64_t later_ns = regular && beside_ ? std::max<std::int64_t>(0, idle_ns - lately_ns) : 0;
  const std::int64_t short_ns = later_ns < kShortCopiesNs ? later_ns : 0;
  if (copy_.until_ns > since_ns_ + idle_ns) return static_cast<double>(short_ns); // the host did not wait for the long copy
  std::int64_t stood_ns = std::max<std::int64_t>(0, copy_.until_ns - std::max(copy_.since_ns, since_ns_));
  if (!open_ && (regular || alone_idle_ns_ >= 0)) {
    const std::int64_t usual_ns = alone_idle_ns_ >= 0 ? alone_idle_ns_ : lately_ns;
    stood_ns = std::min(stood_ns, std::max<std::int64_t>(0, idle_ns - usual_ns));
  }
  return static_cast<double>(std::max(short_ns, stood_ns));
}

void SlowdownBudget::waited(const Event& event, const Unconfirmed::Below& lower, Audit& audit) {
  if (!in_segment_) return; // the host waited for nothing
  const bool paused = window_.waited_enough(event.time_ns);
  const bool clean = !std::exchange(beside_, lower.any) || paused;
  const bool certain = clean && (paused || lower.granted_ns <= since_ns_ - ReferenceWindow::kOverNs);
  // A client that is later than lower work had the device is late by itself. A reckoned length bounds nothing until the end is confirmed.
  const double lower_ns = others_ns_ + left_over_ns_ + static_cast<double>(lower.since_confirmed_ns);
  double delay_ns = clean ? 0 : std::clamp(measured_delay_ns(event), 0.0, lower_ns);
  if (std::exchange(silent_, false)) delay_ns = std::min(delay_ns, blocked_ns(event)); // before that the host was busy by itself
  const double excess_ns = audit.waited({.launches = std::exchange(launches_, 0U), .blocked_ns = blocked_ns(event), .delay_ns = delay_ns, .clean = clean, .certain = certain, .open = event.outlook.open});
  delay_ns += excess_ns;
  const std::int64_t cycle_ns = event.time_ns - since_ns_;
  window_.waited(event.time_ns, cycle_ns, clean, audit.lacks_reference());
  compare(delay_ns);
  balance_ns_ += spent_ns_; // the measured delay takes the place of the expected one
  carried_ns_ += std::max(0.0, delay_ns - std::exchange(paid_away_ns_, 0));
  earn(static_cast<double>(event.time_ns - earned_until_ns_) - delay_ns);
  open_ = event.outlook.open;
  see_arrivals(event.time_ns);
  if (open_ || !arrivals_) request_ended(event.time_ns);
  active_ns_ += static_cast<double>(event.time_ns - first_ns_);
  see_load();

  in_segment_ = false;
  left_over_ns_ = std::max(0.0, others_ns_ - delay_ns);
  others_ns_ = spent_ns_ = expected_ns_ = forecast_ns_ = 0;
  since_ns_ = event.time_ns;
  slack_ = event.outlook.slack;
  idle_ = event.outlook.idle;
  alone_idle_ns_ = event.outlook.alone_idle_ns;
  see_stop(static_cast<double>(cycle_ns), excess_ns, audit);
}

// If the client's waits are as late in the stop as before it, the client is late by itself, and the stop ends. Its word has to weigh twice as
// much for the next stop, up to the loan.
bool SlowdownBudget::trial_fails(Audit& audit) {
  if (stop_ends_ns_ == 0 || !audit.late_by_itself()) return false;
  balance_ns_ += std::max(0.0, -left_ns(since_ns_));
  stop_ends_ns_ = 0, doubted_ns_ = 0, excess_ns_ = 0;
  disbelief_ = std::min(2 * disbelief_, kMostDisbelief);
  return true;
}

void SlowdownBudget::goes_on(std::int64_t now_ns, std::int64_t left_ns) {
  const std::int64_t stood_ns = std::max<std::int64_t>(0, now_ns - std::exchange(stopped_ns_, kNever));
  for (std::int64_t* moment_ns : {&since_ns_, &first_ns_, &earned_until_ns_, &request_.begin_ns, &queue_.begin_ns}) *moment_ns += stood_ns;
  alone_dry_ns_ = std::max(alone_dry_ns_, std::min(alone_dry_ns_ + stood_ns, now_ns));
  balance_ns_ += spent_ns_;
  spent_ns_ = expected_ns_ = forecast_ns_ = left_over_ns_ = 0;
  others_ns_ = static_cast<double>(left_ns);
  for (Late& of : late_) of.now_ns = 0;
  visits_.now = 0;
  silent_ = false;
}

// A client with few waits needs more depth: a single wait may differ by more than the budget holds. A stop that has lasted longest
// leaves no debt: one that the client will not earn back in that time, or at rest, must not stop lower work for ever.
void SlowdownBudget::see_stop(double cycle_ns, double excess_ns, Audit& audit) {
  constexpr double kDeepest = 0.5; // of what the client saves, or earns in so many waits
  constexpr double kWaits = 20;
  constexpr double kRememberedNs = 5e9;
  cycle_ns_ += (cycle_ns - cycle_ns_) / 8;
  excess_ns_ += excess_ns - excess_ns_ * std::min(cycle_ns / kRememberedNs, 1.0);
  doubted_ns_ -= cycle_ns;
  if (trial_fails(audit)) return;
  const double usual_ns = max_slowdown_ > 0 ? kDeepest * std::max(full_ns(), share_of(kWaits * cycle_ns_)) : kLoanNs;
  const double depth_ns = std::min(disbelief_ * usual_ns, std::max(usual_ns, kLoanNs));
  const bool stopped = stop_ends_ns_ != 0;
  if (stopped && since_ns_ >= stop_ends_ns_) balance_ns_ += std::max(0.0, -left_ns(since_ns_));
  if (left_ns(since_ns_) >= (stopped ? 0 : -depth_ns)) {
    if (stopped) disbelief_ = 1;
    stop_ends_ns_ = 0;
  } else if (!stopped) {
    stop_ends_ns_ = since_ns_ + kLongestStopNs;
    audit.stop_begins();
  }
  if (stop_ends_ns_ != 0 || excess_ns_ > depth_ns) doubted_ns_ = kRememberedNs;
}

// For how long the host stood in the wait. Where a client does not report that, since its first launch at most.
double SlowdownBudget::blocked_ns(const Event& event) const {
  return static_cast<double>(event.time_ns - std::clamp(event.began_ns, first_ns_, event.time_ns));
}

// How much later than alone the wait ended. At least, how much longer the segment was than the longest of its kind: a host that began
// to wait late may have waited before, for a copy or for room in its queue. Where the client reports when its host began to wait, only
// a much longer segment counts so: a host may be a little slower by itself than it ever was.
double SlowdownBudget::measured_delay_ns(const Event& event) const {
  constexpr std::int64_t kUnclear = 32;
  const Outlook& outlook = event.outlook;
  const std::int64_t longer_ns = outlook.span_ns < 0 ? 0 : event.time_ns - first_ns_ - outlook.span_ns;
  if (outlook.alone_end_ns == kLongAgo) return static_cast<double>(longer_ns);
  if (event.began_ns == kLongAgo || outlook.after_ns == kLongAgo)
    return static_cast<double>(std::max(std::min(finish_ns_, event.time_ns) - outlook.alone_end_ns, longer_ns));
  return static_cast<double>(std::max(event.time_ns - outlook.alone_end_ns, longer_ns > outlook.span_ns / kUnclear ? longer_ns : 0));
}

// Compares the measured delay with the forecast. An unforeseen part is divided among the lower work of this segment, by what the client
// did when it was granted, in the proportions in which unforeseen delays lately came of each.
void SlowdownBudget::compare(double delay_ns) {
  seen_.forecast_ns += forecast_ns_;
  seen_.foreseen_ns += std::min(delay_ns, forecast_ns_);
  if (seen_.forecast_ns > tuning_->lately_ns / 4) seen_.forecast_ns /= 2, seen_.foreseen_ns /= 2;
  constexpr std::array kWhens{kAtRest, kVisits, kBetween, kAtWork};
  std::array<double, kWhens.size()> parts{};
  double all = 0;
  for (const When when : kWhens) {
    parts[when] = (share(when) + tuning_->surprise) * late_[when].now_ns;
    all += parts[when];
  }
  if (all == 0) return;
  const double unforeseen_ns = std::max(0.0, delay_ns - forecast_ns_);
  for (const When when : kWhens) {
    Late& of = late_[when];
    if (of.now_ns == 0) of.delay_ns -= of.delay_ns / 32; // fear fades where no lower work is granted
    of.delay_ns += unforeseen_ns * parts[when] / all;
    of.lower_ns += std::exchange(of.now_ns, 0);
    if (of.lower_ns > tuning_->lately_ns) of.lower_ns /= 2, of.delay_ns /= 2;
  }
  constexpr double kLately = 32;
  if (visits_.now == 0) visits_.delay_ns -= visits_.delay_ns / 32;
  visits_.delay_ns += unforeseen_ns * parts[kVisits] / all;
  visits_.count += std::exchange(visits_.now, 0);
  if (visits_.count > kLately) visits_.count /= 2, visits_.delay_ns /= 2;
}

std::array<SlowdownBudget::Unforeseen, 2> SlowdownBudget::unforeseen(std::int64_t now_ns, bool at_work, bool turns) const {
  const double part = exposed(now_ns) * (max_slowdown_ > 0 ? 1 - filled(now_ns) : 1);
  const double share = part * (seen(when(at_work, false)) + (max_slowdown_ > 0 ? feared(when(at_work, false)) : 0));
  const Unforeseen any{.share = share, .per_ns = share};
  if (in_segment_ || !turns) return {any, any};
  const double feared = max_slowdown_ > 0 ? this->feared(kVisits) : 0;
  return {any, {.share = part * (seen(kVisits) + feared), .per_ns = part * feared, .per_visit_ns = part * visits_.cost_ns()}};
}

// Where few forecasts have been compared yet, a full budget takes forecast delays for none: budget that is not spent then is lost, and
// spending it is how fikitd finds out. An empty budget takes them for true.
double SlowdownBudget::calibration(std::int64_t now_ns) const {
  const double doubt_ns = tuning_->enough_ns;
  return (seen_.foreseen_ns + (1 - filled(now_ns)) * doubt_ns) / (seen_.forecast_ns + doubt_ns);
}

// The request that ends is late by all that was carried to it, and so are the requests that wait behind it.
void SlowdownBudget::request_ended(std::int64_t now_ns) {
  balance_ns_ -= carried_ns_;
  if (!arrivals_) {
    carried_ns_ = 0;
    return;
  }
  // Requests that were served without a pause have waited for each other: they would have done so alone, and it counts as progress.
  queue_.served += 1;
  const double alone_ns = std::max(0.0, static_cast<double>(now_ns - queue_.begin_ns) - carried_ns_);
  const double waited_ns = alone_ns / queue_.served * waited_together(queue_.served);
  earn(waited_ns - queue_.waited_ns);
  queue_.waited_ns = std::max(waited_ns, queue_.waited_ns);
}

// The client's requests come from outside as long as one of them ends from time to time.
void SlowdownBudget::see_arrivals(std::int64_t now_ns) {
  constexpr std::int64_t kLonger = 4;
  if (!arrivals_) {
    arrivals_ = open_;
    request_ = {.begin_ns = now_ns};
  } else if (open_) {
    request_ = {.begin_ns = now_ns, .longest_ns = std::max(request_.longest_ns, now_ns - request_.begin_ns)};
  } else if (now_ns - request_.begin_ns > kLonger * request_.longest_ns && request_.longest_ns > 0) {
    arrivals_ = false;
  }
}

void SlowdownBudget::see_load() {
  if (active_ns_ + at_rest_ns_ > tuning_->remembered_ns) active_ns_ /= 2, at_rest_ns_ /= 2;
  if (!open_) return;
  const double load = this->load(at_rest_ns_);
  affected_ = {.inside = affected_inside(load), .start = affected_from_start(load)};
}

double SlowdownBudget::load(double at_rest_ns) const {
  return std::min(active_ns_ / std::max(active_ns_ + at_rest_ns, 1.0), tuning_->highest_load);
}

// A client that stays away for longer than ever has a lower load than it had.
double SlowdownBudget::affected(std::int64_t now_ns) const {
  if (!found_nobody(now_ns)) return affected_.inside;
  return away_ns(now_ns) == 0 ? affected_.start : affected_from_start(load(at_rest_ns_ + static_cast<double>(now_ns - since_ns_)));
}

std::int64_t SlowdownBudget::late_from_ns() const { return since_ns_ + idle_.late_ns(); }

// That the client's wait has not ended says something only if its work is complete, and the client has had time to report the end.
std::int64_t SlowdownBudget::earliest_wait_ns(std::int64_t now_ns) const {
  if (!in_segment_) return now_ns + slack_.ns.front();
  const std::int64_t due_ns = alone_dry_ns_ - behind_ns_ + slack_.ns.front();
  return now_ns < finish_ns_ + kWordNs ? due_ns : std::max(due_ns, now_ns);
}

void SlowdownBudget::forecast(std::int64_t now_ns, Forecast& made) const {
  if (!in_segment_) made.at_rest(idle_, since_ns_, now_ns, slack_.low_ns(), earliest_wait_ns(now_ns));
  else if (depth_.high(finish_ns_ - now_ns)) made.certain(now_ns);
  else {
    const std::int64_t dry_ns = alone_dry_ns_ - behind_ns_;
    made.in_segment(slack_, dry_ns, now_ns < finish_ns_ + behind_ns_ + kWordNs ? dry_ns : now_ns, earliest_wait_ns(now_ns));
  }
}

// The requests that wait behind this one will be late by what is carried to them.
double SlowdownBudget::left_ns(std::int64_t now_ns) const {
  const double left_ns = found_nobody(now_ns) ? balance_ns_ : balance_ns_ - affected_.inside * carried_ns_;
  const double away_ns = this->away_ns(now_ns);
  if (away_ns == 0) return left_ns;
  const double more_ns = left_ns + share_of(away_ns);
  return arrivals_ ? std::max(left_ns, std::min(more_ns, full_ns())) : more_ns; // nobody can tell requests that queue from requests that do not
}

double SlowdownBudget::covers_ns(std::int64_t now_ns) const {
  return left_ns(now_ns) / affected(now_ns);
}

// The fuller the budget, the cheaper a delay: budget that is not spent when it is full is lost. So lower work goes when it delays the
// client little, and lower work that always delays it much goes when it does so least.
double SlowdownBudget::worth(std::int64_t now_ns, bool at_work) const {
  if (max_slowdown_ <= 0) return 0;
  if (at_work) return tuning_->cheap;
  const double f = filled(now_ns);
  const double plenty = f / (1 - f * f * f * f);
  // Requests that queue shall not lose more than lower work gains.
  return tuning_->cheap + (arrivals_ ? std::min(tuning_->arrivals_saved * plenty, 1.0) : plenty);
}

// The longer the client has stayed away, beyond what it ever did, the smaller the part of the lower work that is still there when it comes.
double SlowdownBudget::exposed(std::int64_t now_ns) const {
  if (in_segment_) return 1;
  const double usual_ns = std::min(static_cast<double>(idle_.ns.back()), tuning_->lately_ns) + tuning_->enough_ns;
  return usual_ns / std::max(static_cast<double>(now_ns - since_ns_), usual_ns);
}

void SlowdownBudget::spend(const Lower& lower, std::int64_t now_ns) {
  forecast_ns_ += std::max(0.0, lower.more_ns);
  const When when = this->when(lower.at_work, lower.turns);
  const double takes_ns = lower.takes_ns;
  late_[when].now_ns += exposed(now_ns) * takes_ns;
  if (when == kVisits && lower.opens) visits_.now += exposed(now_ns);
  const auto at_rest_ns = [&](When when) { return in_segment_ ? late_[when].now_ns : std::min(late_[when].now_ns, tuning_->enough_ns); };
  const double visits_ns = late_[kVisits].now_ns > 0 ? feared(kVisits) * at_rest_ns(kVisits) + visits_.cost_ns() * visits_.now : 0;
  const double surcharge_ns = this->surcharge_ns(kAtRest, at_rest_ns(kAtRest)) + visits_ns + this->surcharge_ns(kBetween, late_[kBetween].now_ns) +
                              this->surcharge_ns(kAtWork, late_[kAtWork].now_ns);
  const double expected_ns = affected(now_ns) * (lower.all_ns + surcharge_ns);
  balance_ns_ -= expected_ns - expected_ns_;
  spent_ns_ += expected_ns - expected_ns_;
  expected_ns_ = expected_ns;
  others_ns_ += takes_ns;
  if (in_segment_ && now_ns < finish_ns_) finish_ns_ += static_cast<std::int64_t>(takes_ns);
}

void SlowdownBudget::spend_on_copy(double delay_ns, double takes_ns, std::int64_t now_ns) {
  balance_ns_ -= affected(now_ns) * delay_ns;
  spent_ns_ += affected(now_ns) * delay_ns;
  others_ns_ += takes_ns;
}

} // namespace fikit::policy::budget
