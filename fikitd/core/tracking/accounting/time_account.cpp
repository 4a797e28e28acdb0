#include "time_account.hpp"

namespace fikit::tracking {

namespace {
constexpr std::int64_t kLeastTaught = 20; // periods by itself teach how long its kernels take if they are at least 1/20 of those beside others
} // namespace

void TimeAccount::Sums::add(const Sums& more) {
  gaps_ns += more.gaps_ns;
  expected_gaps_ns += more.expected_gaps_ns;
  unknown_gaps_ns += more.unknown_gaps_ns;
  behind_ns += more.behind_ns;
  sooner_ns += more.sooner_ns;
  unknown_ns += more.unknown_ns;
  work_ns += more.work_ns;
}

// A profile's gaps are the device's idle times: they begin before the host learns that its work is done. That part of a gap shows here
// as a wait.
std::int64_t TimeAccount::Sums::delayed_ns() const {
  const std::int64_t words_ns = std::max<std::int64_t>(expected_gaps_ns - gaps_ns, 0);
  return std::max<std::int64_t>(behind_ns - sooner_ns - words_ns, 0);
}

// By how much the host was faster than its profile says, less the waits for completions that are part of the profile's gaps.
std::int64_t TimeAccount::Sums::late_ns() const {
  const std::int64_t late_ns = gaps_ns - expected_gaps_ns;
  return late_ns >= 0 ? late_ns : std::min<std::int64_t>(late_ns + std::max<std::int64_t>(behind_ns - sooner_ns, 0), 0);
}

void TimeAccount::at_gate(std::int64_t t_ns) {
  go_on(t_ns, Host::runs);
  gate_ = true;
  gate_until_ns_ = kNever;
}

std::int64_t TimeAccount::take_gate_cost(std::int64_t t_ns) {
  go_on(t_ns, Host::runs);
  const std::int64_t cost_ns = gate_cost_ns_;
  gate_cost_ns_ = 0;
  return cost_ns;
}

std::int64_t TimeAccount::gate_cost(std::int64_t t_ns) const {
  TimeAccount then = *this;
  return then.take_gate_cost(t_ns);
}

void TimeAccount::launched(const Launch& launch, const OthersWork& others) {
  go_on(launch.t_ns, Host::runs);
  if (begun_) end_gap(launch.no_core_ns);
  else period_.others = others;
  begun_ = true;
  expected_gap_ns_ = launch.gap_ns;
  ++period_.launches;
  if (launch.work_ns < 0) {
    ++period_.unknown;
    unknown_ = true;
    return;
  }
  dry_ns_ = std::max(dry_ns_, launch.t_ns) + launch.work_ns;
  period_.sums.work_ns += launch.work_ns;
  if (job_ != nullptr) job_->launched(launch.t_ns, launch.work_ns);
}

double TimeAccount::unknown_part() const {
  return period_.launches == 0 ? 0 : static_cast<double>(period_.unknown) / static_cast<double>(period_.launches);
}

// A wait that ends later than reckoned moves all that is reckoned after it by as much.
void TimeAccount::complete(const Completion& completion, const OthersWork& others) {
  const bool reckoned = completion.left_ns >= 0 && dry_ns_ != kLongAgo;
  const std::int64_t left_ns = reckoned ? completion.left_ns : 0;
  std::int64_t done_ns = dry_ns_ - left_ns;
  if (completion.all) unknown_over(completion.t_ns);
  if (completion.began_ns != kLongAgo) {
    go_on(completion.began_ns, Host::runs);
    dry_ns_ = done_ns;
    const std::int64_t before_ns = period_.sums.behind_ns;
    go_on(completion.t_ns, Host::waits);
    if (reckoned) done_ns += period_.sums.behind_ns - before_ns;
  }
  if (reckoned && done_ns > completion.t_ns) {
    const std::int64_t by_ns = done_ns - completion.t_ns;
    period_.sums.sooner_ns += by_ns;
    if (job_ != nullptr) job_->over_sooner(by_ns);
    done_ns = completion.t_ns;
  }
  dry_ns_ = done_ns + left_ns;
  if (completion.all) end_period(others);
}

Spent TimeAccount::spent(std::int64_t t_ns, const OthersWork& others) const {
  TimeAccount then = *this;
  then.go_on(t_ns, Host::runs);
  then.end_period(others);
  return {.elapsed_ns = then.now_ns_ - came_ns_,
          .start_ns = then.start_ns_,
          .end_ns = then.gap_ns_,
          .pauses_ns = then.pauses_ns_,
          .waited_ns = then.waited_ns_,
          .delayed_ns = then.delayed_ns(),
          .suspended_ns = then.suspended_ns_,
          .late_ns = std::max<std::int64_t>(then.beside_.late_ns() + then.by_itself_.late_ns(), 0),
          .unexplained_ns = then.beside_.unknown_ns + then.beside_.unknown_gaps_ns + then.lost_ns_};
}

// Under MPS kernels take longer beside those of the same job too, which they would alone as well: by as much as they did in periods
// without other jobs.
std::int64_t TimeAccount::delayed_ns() const {
  const std::int64_t delayed_ns = beside_.delayed_ns();
  if (!overlaps_ || by_itself_.work_ns <= 0 || by_itself_.work_ns < beside_.work_ns / kLeastTaught) return delayed_ns;
  const double longer = static_cast<double>(by_itself_.delayed_ns()) / static_cast<double>(by_itself_.work_ns);
  return std::max<std::int64_t>(delayed_ns - static_cast<std::int64_t>(longer * static_cast<double>(beside_.work_ns)), 0);
}

void TimeAccount::go_on(std::int64_t t_ns, Host host) {
  if (gate_) {
    step(std::min(t_ns, gate_until_ns_), Host::at_gate);
    if (t_ns >= gate_until_ns_) gate_ = false;
  }
  if (!gate_) step(t_ns, host);
}

void TimeAccount::step(std::int64_t t_ns, Host host) {
  const std::int64_t length_ns = t_ns - now_ns_;
  if (length_ns <= 0) return;
  const std::int64_t job_done_ns = job_ == nullptr ? 0 : job_->done_ns(t_ns);
  const std::int64_t own_ns = dry_ns_ <= now_ns_ ? 0 : std::min(dry_ns_ - now_ns_, length_ns);
  std::int64_t rest_ns = length_ns - own_ns;
  if (host != Host::runs) rest_ns -= std::clamp<std::int64_t>(job_done_ns - job_done_ns_ - own_ns, 0, rest_ns);
  now_ns_ = t_ns;
  job_done_ns_ = job_done_ns;
  if (host == Host::stands) suspended_ns_ += rest_ns;
  else if (lost_) lost_ns_ += rest_ns;
  else if (host == Host::at_gate) at_gate_for(rest_ns);
  else if (!begun_) start_ns_ += rest_ns;
  else if (host == Host::waits) period_.sums.behind_ns += rest_ns;
  else gap_ns_ += rest_ns;
  lost_ = false;
}

// From now on a wait at the gate is no longer for the client's own earlier work.
void TimeAccount::unknown_over(std::int64_t t_ns) {
  if (unknown_ && gate_) go_on(t_ns, Host::runs);
  unknown_ = false;
}

// Behind work of unknown length the host might have waited as long alone.
void TimeAccount::at_gate_for(std::int64_t ns) {
  const auto unknown_ns = unknown_ ? static_cast<std::int64_t>(unknown_part() * static_cast<double>(ns)) : 0;
  period_.sums.unknown_ns += unknown_ns;
  waited_ns_ += ns - unknown_ns;
  gate_cost_ns_ += ns - unknown_ns;
}

// The part of an apparent pause in which the host had no processor core counts as lateness.
void TimeAccount::end_gap(std::int64_t no_core_ns) {
  const std::int64_t gap_ns = gap_ns_;
  const std::int64_t own_ns = gap_ns - std::clamp<std::int64_t>(no_core_ns, 0, gap_ns);
  gap_ns_ = 0;
  if (own_ns >= kPauseNs) {
    pauses_ns_ += own_ns;
    period_.sums.gaps_ns += gap_ns - own_ns;
  } else if (expected_gap_ns_ < 0) {
    period_.sums.unknown_gaps_ns += gap_ns;
  } else {
    period_.sums.gaps_ns += gap_ns;
    period_.sums.expected_gaps_ns += expected_gap_ns_;
  }
}

// In a period without other jobs' kernels, a kernel that took longer did so by itself: alone.
void TimeAccount::end_period(const OthersWork& others) {
  Sums& sums = period_.sums;
  const auto unknown_ns = static_cast<std::int64_t>(unknown_part() * static_cast<double>(sums.behind_ns));
  sums.unknown_ns += unknown_ns;
  sums.behind_ns -= unknown_ns;
  const bool others_ran = others.kernels != period_.others.kernels || others.under_way || period_.others.under_way;
  (others_ran && !measured_ ? beside_ : by_itself_).add(sums);
  period_ = Period();
  period_.others = others;
}

} // namespace fikit::tracking
