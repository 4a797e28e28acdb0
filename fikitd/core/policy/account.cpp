#include "account.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace fikit::policy {
namespace {

// So late a host may be because of short copies, which pass the gate unseen, several of them one behind the other; if it is
// later it has had something else to do.
constexpr std::int64_t kShortCopiesNs = 10'000'000;
constexpr double kLatelyNs = 200e6; // of lower work: what came before counts half

// So many requests feel a delay of one of them, if they arrive as a Poisson process and take equally long: those that wait
// behind it, and those that come before the queue is empty (Pollaczek and Khinchine, by the length of one request).
double affected(double load) { return 0.5 + 0.5 / ((1 - load) * (1 - load)); }

// The same of one that found nobody before it: nobody waits behind it yet.
double affected_from_start(double load) { return 1 / (1 - load); }

// So many lengths of a request have n requests waited together that were served one after the other without a pause, if they
// came at random. (n - 1) / 2 + the mean displacement of a parking function of size n - 1; this is within 5 % of it.
double waited_together(double n) { return std::sqrt(std::numbers::pi / 8) * n * (std::sqrt(n) - 1); }

} // namespace

void Account::earn(double progress_ns, double max_slowdown) {
  const double earned_ns = max_slowdown / tuning_->reserve * std::max(progress_ns, 0.0);
  balance_ns_ = std::min(balance_ns_ + earned_ns, full_ns(max_slowdown));
}

void Account::launched(const Event& event, const Client& client, double max_slowdown) {
  if (!in_segment_) begin_segment(event.time_ns);
  const std::int64_t in_line_ns = alone_dry_ns_ > event.time_ns ? event.outlook.in_line_ns : 0;
  depth_.launched(in_line_ns + std::clamp<std::int64_t>(event.duration_ns, 0, kHorizonNs));
  alone_dry_ns_ = std::max(event.outlook.alone_dry_ns, event.time_ns);
  finish_ns_ = client.progress.finish_ns();
  slack_ = event.outlook.slack;
  if (slack_.ns.back() == 0) slack_.ns.fill(std::max<std::int64_t>(event.gap_ns, 0)); // never seen
  earn(static_cast<double>(event.time_ns - earned_until_ns_), max_slowdown);
  earned_until_ns_ = event.time_ns;
  see_surplus(event.time_ns, max_slowdown);
}

void Account::begin_segment(std::int64_t now_ns) {
  const std::int64_t idle_ns = now_ns - since_ns_;
  (open_ ? at_rest_ns_ : active_ns_) += static_cast<double>(idle_ns);
  if (found_nobody(now_ns)) {
    carried_ns_ = 0;
    queue_ = {.begin_ns = now_ns};
  }
  const auto copies_ns = static_cast<double>(this->copies_ns(idle_ns));
  carried_ns_ += copies_ns;
  ease_.late(copies_ns);
  surplus_.begin_segment(now_ns, fresh_ ? 0 : idle_ns, idle_.ns.back(), *tuning_);
  in_segment_ = true;
  fresh_ = false;
  depth_.begin();
  first_ns_ = now_ns;
  alone_dry_ns_ = now_ns;
  earned_until_ns_ = now_ns;
}

// Where it goes on after about the same time always but now, it waited for something: with others there, for a copy perhaps
// that stood behind one of theirs. Of short ones, which pass the gate, nobody knows. Of long ones it is known, and what is usual
// is said by times at which it was alone, if there are any: a delay that comes again and again becomes usual, too. (So do
// hosts that are slower beside others, which is nobody's copy.)
std::int64_t Account::copies_ns(std::int64_t idle_ns) const {
  const std::int64_t lately_ns = idle_.usual_ns();
  const bool regular = !open_ && lately_ns > 0;
  const std::int64_t later_ns = regular && others_ns_ + left_over_ns_ > 0 ? std::max<std::int64_t>(0, idle_ns - lately_ns) : 0;
  const std::int64_t short_ns = later_ns < kShortCopiesNs ? later_ns : 0;
  if (copy_stands_.until_ns > since_ns_ + idle_ns) return short_ns; // it did not wait for the long one
  std::int64_t stood_ns = std::max<std::int64_t>(0, copy_stands_.until_ns - std::max(copy_stands_.since_ns, since_ns_));
  if (!open_ && (regular || alone_idle_ns_ >= 0)) {
    const std::int64_t usual_ns = alone_idle_ns_ >= 0 ? alone_idle_ns_ : lately_ns;
    stood_ns = std::min(stood_ns, std::max<std::int64_t>(0, idle_ns - usual_ns));
  }
  return std::max(short_ns, stood_ns);
}

void Account::waited(const Event& event, double max_slowdown) {
  if (!in_segment_) return; // it waited for nothing
  const Outlook& outlook = event.outlook;
  const auto span_ns = static_cast<double>(event.time_ns - first_ns_);
  const double delay_ns = std::clamp(measured_delay_ns(event), 0.0, others_ns_ + left_over_ns_);
  compare(delay_ns);
  balance_ns_ += spent_ns_; // what was expected gives way to what was
  carried_ns_ += delay_ns;
  ease_.late(delay_ns);
  surplus_.end_segment(event.time_ns, event.time_ns - first_ns_, delay_ns, tuning_->remembered_ns);
  if (others_ns_ + left_over_ns_ > 0) ease_.worked(span_ns, tuning_->remembered_ns);
  earn(static_cast<double>(event.time_ns - earned_until_ns_) - delay_ns, max_slowdown);
  open_ = outlook.open;
  see_arrivals(event.time_ns);
  if (open_ || !arrivals_) request_ended(event.time_ns, max_slowdown);
  active_ns_ += span_ns;
  see_load();

  in_segment_ = false;
  left_over_ns_ = std::max(0.0, others_ns_ - delay_ns);
  others_ns_ = 0;
  spent_ns_ = 0;
  uncharged_ns_ = 0;
  expected_ns_ = 0;
  since_ns_ = event.time_ns;
  slack_ = outlook.slack;
  idle_ = outlook.idle;
  alone_idle_ns_ = outlook.alone_idle_ns;
  see_surplus(event.time_ns, max_slowdown);
}

void Account::see_surplus(std::int64_t now_ns, double max_slowdown) {
  if (arrivals_ || max_slowdown <= 0) surplus_.stop();
  else surplus_.see(now_ns, (balance_ns_ - carried_ns_) / full_ns(max_slowdown), *tuning_);
}

// Lower work of any kind may go, as far as its share of what may be lost says. Not where the host is about to wait in its queue:
// there all that stands in line is a delay. Nor where no single delay may be long, which only forecasts say.
bool Account::at_ease(std::int64_t now_ns, const Protection& protection) const {
  if (protection.max_slowdown <= 0 || protection.max_delay_ns != kNever) return false;
  if (in_segment_ && depth_.high(finish_ns_ - now_ns)) return false;
  return ease_.loses_less(tuning_->ease * protection.max_slowdown, in_this_segment_ns(now_ns), tuning_->enough_ns);
}

// As far as what is left covers the worst that may come of it: a delay of all that it exceeds the least slack by, but of no more
// than all lower work since the wait before.
std::int64_t Account::lets_go_ns(std::int64_t begin_ns, std::int64_t now_ns, const Protection& protection) const {
  if (at_ease(now_ns, protection)) return static_cast<std::int64_t>(tuning_->rest_run_ns);
  if (!surplus_.spends(in_this_segment_ns(now_ns)) || protection.max_delay_ns != kNever) return 0;
  const double left_ns = balance_ns_ - carried_ns_ - tuning_->surplus_kept * full_ns(protection.max_slowdown);
  const bool bought = protection.max_slowdown > tuning_->rest_slowdown && mostly_holds(now_ns); // by forecasts, while it is at work
  const double longest_ns = std::max(tuning_->rest_run_ns, bought ? 0 : tuning_->surplus_share * left_ns);
  const double worst_ns = std::min(static_cast<double>(begin_ns - earliest_wait_ns(now_ns)), others_ns_ + left_over_ns_);
  return static_cast<std::int64_t>(std::clamp(left_ns - worst_ns, 0.0, longest_ns));
}

// That its wait has not ended says something only when its work is done.
std::int64_t Account::earliest_wait_ns(std::int64_t now_ns) const {
  if (!in_segment_) return now_ns + slack_.ns.front();
  const std::int64_t due_ns = alone_dry_ns_ + slack_.ns.front();
  return now_ns < finish_ns_ + kWordNs ? due_ns : std::max(due_ns, now_ns);
}

// What was with what was expected.
void Account::compare(double delay_ns) {
  surprise_ns_ += std::max(0.0, delay_ns - spent_ns_ - uncharged_ns_);
  others_lately_ns_ += others_ns_;
  if (others_lately_ns_ < kLatelyNs) return;
  surprise_ns_ /= 2;
  others_lately_ns_ /= 2;
}

// Requests come from outside as long as, from time to time, one ends.
void Account::see_arrivals(std::int64_t now_ns) {
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

// Later than alone; and not less than by how much it took longer than the longest of its kind: a host that came late may have waited
// before, for a copy or for room in its queue, and not said so. Where it says when it came only much longer ones are taken for that,
// unless lower work was let go whatever was forecast. Where nobody knows how long its waits outlast its work, it is a delay only as
// far as the work was late.
double Account::measured_delay_ns(const Event& event) const {
  const Outlook& outlook = event.outlook;
  const std::int64_t longer_ns = outlook.span_ns < 0 ? 0 : event.time_ns - first_ns_ - outlook.span_ns;
  if (outlook.alone_end_ns == kLongAgo) return static_cast<double>(longer_ns);
  if (event.began_ns == kLongAgo || outlook.after_ns == kLongAgo)
    return static_cast<double>(std::max(std::min(finish_ns_, event.time_ns) - outlook.alone_end_ns, longer_ns));
  constexpr std::int64_t kUnclear = 32; // a host may be a little slower by itself than it ever was
  const bool is_hidden = uncharged_ns_ > 0 || longer_ns > outlook.span_ns / kUnclear;
  return static_cast<double>(std::max(event.time_ns - outlook.alone_end_ns, is_hidden ? longer_ns : 0));
}

// It responds later by all that has been carried to it, and so does whoever waits behind it.
void Account::request_ended(std::int64_t now_ns, double max_slowdown) {
  balance_ns_ -= carried_ns_;
  if (!arrivals_) {
    carried_ns_ = 0;
    return;
  }
  // Those that were served without a pause have waited for each other.
  queue_.served += 1;
  const double alone_ns = std::max(0.0, static_cast<double>(now_ns - queue_.begin_ns) - carried_ns_);
  const double waited_ns = alone_ns / queue_.served * waited_together(queue_.served);
  earn(waited_ns - queue_.waited_ns, max_slowdown);
  queue_.waited_ns = std::max(waited_ns, queue_.waited_ns);
}

// The request that begins, or would begin now: had it been waiting, it would have begun before.
bool Account::found_nobody(std::int64_t now_ns) const {
  return open_ && !in_segment_ && now_ns >= late_from_ns();
}

std::int64_t Account::late_from_ns() const { return since_ns_ + idle_.late_ns(); }

void Account::see_load() {
  if (active_ns_ + at_rest_ns_ > tuning_->remembered_ns) {
    active_ns_ /= 2;
    at_rest_ns_ /= 2;
  }
  if (!open_) return;
  const double load = std::min(active_ns_ / std::max(active_ns_ + at_rest_ns_, 1.0), tuning_->highest_load);
  affected_ = {.inside = affected(load), .start = affected_from_start(load)};
}

void Account::expect(std::int64_t now_ns, Delays& delays) const {
  delays.certain_ = false;
  delays.slack_ns_ = 0;
  if (!in_segment_) {
    delays.slack_ns_ = slack_.low_ns();
    delays.origin_ns_ = since_ns_ + delays.slack_ns_;
    delays.remaining_.begin(idle_, now_ns - since_ns_);
  } else if (depth_.high(finish_ns_ - now_ns)) { // soon its host waits
    delays.certain_ = true;
    delays.origin_ns_ = now_ns;
  } else {
    // That nobody knows of the wait's end says something only when the client's work is done, and its host has had time to say so.
    delays.origin_ns_ = alone_dry_ns_;
    delays.remaining_.begin(slack_, now_ns < finish_ns_ + kWordNs ? 0 : now_ns - alone_dry_ns_);
  }
}

std::int64_t Account::longest_delay_ns(std::int64_t busy_until_ns, std::int64_t now_ns) const {
  return std::max<std::int64_t>(0, busy_until_ns - earliest_wait_ns(now_ns));
}

// Delays are not all worth their price: the fuller the budget, the higher the price at which lower work is bought, without
// end when it is full: what is not spent then is lost. So it is bought where it is cheap, and a kernel that always costs
// much is bought where it costs least. While the client has work on the device, only what is nearly free: waiting for its
// next gap costs nothing.
Account::Means Account::means(std::int64_t now_ns, bool at_work, double max_slowdown) const {
  Means means;
  means.weight_ = weight(now_ns);
  means.if_queued_ = arrivals_ ? tuning_->queue_cover : 1;
  means.left_ns_ = left_ns(now_ns);
  means.from_outside_ = arrivals_;
  means.stood_ns_ = found_nobody(now_ns) ? stood_ns_ : 0;
  means.any_ = max_slowdown > 0;
  means.price_ = tuning_->cheap + std::min(plenty(filled(now_ns, max_slowdown, at_work)), highest_price(now_ns, max_slowdown));
  return means;
}

// Waiting for cheap moments is no use where there are hardly any: then what is there beyond the budget of rest_slowdown is
// spent while the client is at work, too. Not where its requests come from outside, and time between them is to come.
double Account::filled(std::int64_t now_ns, double max_slowdown, bool at_work) const {
  const double kept = at_work ? tuning_->rest_slowdown : 0;
  if (max_slowdown <= kept) return 0;
  if (at_work && (arrivals_ || !mostly_holds(now_ns))) return 0;
  return std::clamp((left_ns(now_ns) - full_ns(kept)) / (full_ns(max_slowdown) - full_ns(kept)), 0.0, 0.999);
}

double Account::plenty(double filled) const {
  return times_saved() * filled / (1 - filled * filled * filled * filled);
}

// While others may wait, for between its requests is time at which a delay costs less, and that is to come. What the client allows
// says how much it may lose until then for what lower work gains.
double Account::highest_price(std::int64_t now_ns, double max_slowdown) const {
  return others_may_wait(now_ns) ? tuning_->queued_price * max_slowdown : std::numeric_limits<double>::infinity();
}

double Account::weight(std::int64_t now_ns) const {
  return found_nobody(now_ns) ? affected_.start : affected_.inside;
}

// Those that come behind will be late by what is carried to them.
double Account::left_ns(std::int64_t now_ns) const {
  return found_nobody(now_ns) ? balance_ns_ : balance_ns_ - affected_.inside * carried_ns_;
}

// What was spent on lower work that has done its work in time has cost nothing, and is there again.
// Of what is let go nothing is expected, whatever forecasts say: what it costs is charged when the wait is over.
void Account::spend(double delay_ns, std::int64_t length_ns, std::int64_t now_ns, bool let_go) {
  stood_ns_ = 0;
  const double forecast_ns = weight(now_ns) * delay_ns;
  if (let_go) uncharged_ns_ = std::max(uncharged_ns_, forecast_ns);
  const double expected_ns = let_go ? 0 : forecast_ns;
  take(expected_ns - expected_ns_, length_ns);
  expected_ns_ = expected_ns;
  if (in_segment_ && now_ns < finish_ns_) finish_ns_ += length_ns;
}

void Account::spend_on_copy(double delay_ns, std::int64_t length_ns, std::int64_t now_ns) {
  take(weight(now_ns) * delay_ns, length_ns);
}

void Account::take(double spent_ns, std::int64_t length_ns) {
  balance_ns_ -= spent_ns;
  spent_ns_ += spent_ns;
  others_ns_ += static_cast<double>(length_ns);
}

} // namespace fikit::policy
