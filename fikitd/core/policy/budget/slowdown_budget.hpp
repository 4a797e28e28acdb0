// What lower work has cost a client, what it may still cost, and what a ns of the client's delay is worth: its slowdown budget.
//
// A client's host launches a segment, then waits until all of it is complete. Only what makes such a wait end later is a delay. The
// budget grows with the client's own progress, and pays for delays: for the expected delay when lower work is granted; when the wait is
// over, for the measured one in its place.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "audit.hpp"
#include "forecast.hpp"
#include "policy/base/events.hpp"
#include "policy/base/queue_depth.hpp"
#include "reference_window.hpp"
#include "unconfirmed.hpp"

namespace fikit::policy::budget {

class SlowdownBudget {
 public:
  void begin(std::int64_t now_ns, const Tuning& tuning, double max_slowdown);
  void use(const Tuning& tuning) { tuning_ = &tuning; } // after a copy into another level's policy

  // What the client reports.
  void profiled(const TimeQuantiles& slack) {
    if (fresh_) slack_ = slack; // of its first launch, whichever that is
  }
  void launched(const Event& event, const Client& client);
  void seen(const Client& client) { finish_ns_ = client.progress.finish_ns(); } // how far the client's work is, as reckoned
  void told() { behind_ns_ = 0; }                                               // the client's marks say how far it is
  void waited(const Event& event, const Unconfirmed::Below& lower, Audit& audit); // the client's host has waited for all its work

  void forecast(std::int64_t now_ns, Forecast& made) const;
  // Which share of a forecast delay comes true, by the delays that have been measured.
  double calibration(std::int64_t now_ns) const;
  // How many requests feel a delay now.
  double affected(std::int64_t now_ns) const;
  struct Unforeseen {        // delays that no forecast said
    double share = 0;        // all of them / device time of lower work
    double per_ns = 0;       // the part that each ns of lower work is charged
    double per_visit_ns = 0; // the part that the first piece of a visit is charged
  };
  // By which decisions go. [1]: of lower work that takes turns with the client, where a switch takes time (turns). The fuller the budget the
  // less: a full one can pay for finding out whether unforeseen delays still come. A client with max_slowdown 0 can pay nothing, so there
  // only measured delays count.
  std::array<Unforeseen, 2> unforeseen(std::int64_t now_ns, bool at_work, bool turns) const;
  // The longest delay for which the budget can pay, as each of the affected requests feels it.
  double covers_ns(std::int64_t now_ns) const;
  // By how much lower work may delay the client for each ns of the device that it gains. at_work: the client's kernels are on the device.
  double worth(std::int64_t now_ns, bool at_work) const;

  struct Lower { // work that is granted
    double more_ns = 0; // the delay that is forecast of it
    double all_ns = 0;  // the delay that is expected (with calibration) of all lower work on the device
    double takes_ns = 0; // the device time that it takes, with its switches
    bool at_work = false;
    bool turns = false;
    bool opens = false; // it opens a visit: the client had the device before it
  };
  void spend(const Lower& lower, std::int64_t now_ns);
  void lower_granted() { beside_ = true; } // launches or a copy
  void forget_fears() { late_ = {}, visits_ = {}; } // other lower work than before is granted now
  void overran(std::int64_t ns) { // granted lower work took so much longer than was reckoned
    others_ns_ += static_cast<double>(ns);
    if (in_segment_) behind_ns_ += ns;
  }
  // A copy of a lower client is granted: it stands in a queue of its own.
  void spend_on_copy(double delay_ns, double takes_ns, std::int64_t now_ns);
  void copy_stands(std::int64_t now_ns, std::int64_t until_ns) { // a copy of the client stands behind one of a lower client
    if (copy_.until_ns <= now_ns) copy_.since_ns = now_ns;
    copy_.until_ns = until_ns;
  }
  void lower_copy_over(std::int64_t granted_ns, std::int64_t t_ns) {
    if (granted_ns <= copy_.since_ns) copy_.until_ns = t_ns;
  }

  bool wary() const { return std::max(share(kBetween), share(kAtWork)) > kFeared / 4; } // much comes unforeseen, or nobody knows yet
  bool back_early() const { return in_segment_ && share(kVisits) > kFeared / 10; } // the client is back, and often before it was expected
  bool overdrawn(std::int64_t now_ns) const { return left_ns(now_ns) < 0; }
  bool full(std::int64_t now_ns) const { return max_slowdown_ > 0 && filled(now_ns) > 0.9; } // hardly more can be saved
  // Lower work has cost so much that none goes until the budget is back at zero, or for as long as a loan is repaid.
  bool stops(std::int64_t now_ns) const { return now_ns < stop_ends_ns_ && overdrawn(now_ns); }
  // Lower work is granted nothing for a moment, so that waits come without it.
  bool pauses(std::int64_t now_ns) const { return window_.open(now_ns); }
  bool keeps_all() const { return stop_ends_ns_ != 0 || window_.any(); } // one of the two, since the last wait
  bool believed() const { return disbelief_ == 1; } // waits were on time in the newest stop
  bool stopped() const { return stop_ends_ns_ != 0; } // lower work stops, or did until the last wait
  bool in_segment() const { return in_segment_; }
  // The client has said nothing for a lease although by all that is known its host should have: nobody waits for it any more, unless it
  // has lost too much already.
  bool silent(std::int64_t now_ns, std::int64_t lease_ns) const {
    constexpr std::int64_t kLonger = 2;
    const std::int64_t done_ns = std::max({finish_ns_, alone_dry_ns_, first_ns_}) + behind_ns_;
    return in_segment_ && now_ns - done_ns > lease_ns + kLonger * slack_.ns.back() && !overdrawn(now_ns);
  }
  void beside_silence(std::int64_t ns) { // lower work is granted because the client stands still, or is silent
    others_ns_ += static_cast<double>(ns);
    silent_ = in_segment_;
  }
  // The client's host was stopped at that moment; it goes on, and left_ns of lower work may be on the device. The time between did not
  // pass for the client.
  void stops_at(std::int64_t t_ns) { stopped_ns_ = t_ns; }
  void goes_on(std::int64_t now_ns, std::int64_t left_ns);
  // The client's requests come from outside, and it is at rest.
  bool awaits_request() const { return arrivals_ && !in_segment_; }
  // The client's requests come from outside, and one may be there.
  bool others_may_wait(std::int64_t now_ns) const { return arrivals_ && !found_nobody(now_ns); }
  std::int64_t nobody_waits_from_ns() const { return arrivals_ && open_ && !in_segment_ ? late_from_ns() : 0; } // 0: never

 private:
  static constexpr double kLoanNs = 0.2e9; // by which lower work may delay the client beyond max_slowdown
  static constexpr double kMostDisbelief = 16;
  static constexpr std::int64_t kLongestStopNs = 20'000'000'000; // a loan is repaid at 0.01 s per second
  static constexpr std::int64_t kWordNs = 100'000; // the client may report so late that a wait is over
  double share_of(double progress_ns) const { return max_slowdown_ / tuning_->reserve * progress_ns; }
  void earn(double progress_ns);
  double away_ns(std::int64_t now_ns) const; // how much longer than ever before the client has neither launched nor had work on the device
  double full_ns() const;
  double left_ns(std::int64_t now_ns) const;
  double filled(std::int64_t now_ns) const { return full_ns() <= 0 ? 0 : std::clamp(left_ns(now_ns) / full_ns(), 0.0, 0.999); }
  void begin_segment(std::int64_t now_ns);
  double copies_ns(std::int64_t idle_ns) const;
  double measured_delay_ns(const Event& event) const;
  double blocked_ns(const Event& event) const;
  void compare(double delay_ns);
  void see_stop(double cycle_ns, double excess_ns, Audit& audit);
  bool trial_fails(Audit& audit);
  void see_arrivals(std::int64_t now_ns);
  void request_ended(std::int64_t now_ns);
  void see_load();
  double load(double at_rest_ns) const;
  bool found_nobody(std::int64_t now_ns) const { return open_ && !in_segment_ && now_ns >= late_from_ns(); }
  double exposed(std::int64_t now_ns) const; // which share of lower work may cause unforeseen delays
  std::int64_t late_from_ns() const; // a request that had been waiting would have begun before this moment
  std::int64_t earliest_wait_ns(std::int64_t now_ns) const;

  const Tuning* tuning_ = nullptr;
  double max_slowdown_ = 0;
  double balance_ns_ = 0;
  double carried_ns_ = 0; // how much later than alone the client is; the budget pays for it when a request ends
  double paid_away_ns_ = 0; // the part of the next delay that the client's time away has paid for

  // This segment.
  bool fresh_ = true; // the client has launched nothing yet
  bool in_segment_ = false;
  bool silent_ = false; // lower work was granted beside its silence
  std::int64_t stopped_ns_ = kNever;
  std::int64_t first_ns_ = 0;
  std::int64_t alone_dry_ns_ = 0; // when all that the client has launched would be complete, were it alone
  std::int64_t finish_ns_ = 0; // the same with others
  std::int64_t behind_ns_ = 0; // how much later than reckoned the client's work is, by the ends of lower work
  std::int64_t earned_until_ns_ = 0;
  QueueDepth depth_;
  TimeQuantiles slack_;            // of the last launch; between segments, of the next one
  bool beside_ = false;    // since the last wait's end lower work was granted, or a grant was outstanding
  double others_ns_ = 0;   // device time of the lower work that was granted since the last wait
  double left_over_ns_ = 0; // device time of lower work that was granted before it, and may be on the device still
  double forecast_ns_ = 0; // the delay that was forecast of all this lower work, grant by grant
  double spent_ns_ = 0;    // what the budget has paid for the delay that is expected of it
  double expected_ns_ = 0; // the part of spent_ns_ for lower work that is on the device now
  // Between segments.
  std::int64_t since_ns_ = 0; // end of the last wait
  TimeQuantiles idle_;
  std::int64_t alone_idle_ns_ = kUnknown;
  struct { // the client's newest copy that stands, or stood, behind a copy of a lower client
    std::int64_t since_ns = 0;
    std::int64_t until_ns = 0;
  } copy_;

  struct { // the delays of lately
    double forecast_ns = 0;
    double foreseen_ns = 0; // the part of forecast_ns that came true
  } seen_;
  // What the client did when lower work was granted: it was at rest, and the work was part of no visit (MPS) or of one; it was between two
  // of its kernels; it was at work.
  enum When : std::uint8_t { kAtRest, kVisits, kBetween, kAtWork };
  When when(bool at_work, bool turns) const { return in_segment_ ? (at_work ? kAtWork : kBetween) : turns ? kVisits : kAtRest; }
  static constexpr double kFeared = 0.2; // the share of lower work that is feared as a delay where nothing is known yet
  struct Late { // unforeseen delays of lately
    double delay_ns = 0;
    double lower_ns = 0; // device time of the lower work beside which they came
    double now_ns = 0;   // device time of lower work in this segment, of which nobody knows yet what it costs
    // At most 1: if a piece of lower work took longer than was reckoned, that says nothing of the next piece.
    double seen(double doubt_ns) const { return std::min(delay_ns / (lower_ns + doubt_ns), 1.0); }
    double feared(double doubt_ns) const {
      const double doubt = doubt_ns / (lower_ns + doubt_ns); // fades as the client's waits say what lower work has cost
      return kFeared * doubt * doubt;
    }
  };
  double seen(When when) const { return late_[when].seen(tuning_->enough_ns / 4); }
  double feared(When when) const { return late_[when].feared(tuning_->enough_ns / 4); }
  double share(When when) const { return seen(when) + feared(when); }
  double surcharge_ns(When when, double lower_ns) const { return lower_ns > 0 ? share(when) * lower_ns : 0; }
  std::array<Late, 4> late_{};
  // The client comes back once in a visit, however long the visit is, and then waits for a switch and for the newest grant. So unforeseen
  // delays count per visit.
  struct {
    double delay_ns = 0;
    double count = 0;
    double now = 0; // since the last wait
    double cost_ns() const { return delay_ns / (count + 1); }
  } visits_;

  // Requests from outside.
  bool open_ = false; // the last wait ended a request
  bool arrivals_ = false;
  struct {
    std::int64_t begin_ns = 0;
    std::int64_t longest_ns = 0;
  } request_;
  struct { // the requests that the client has served without a pause
    std::int64_t begin_ns = 0;
    double served = 0;
    double waited_ns = 0;
  } queue_;
  double active_ns_ = 0; // lately, time in requests
  double at_rest_ns_ = 0; // lately, time between requests
  struct {
    double inside = 1;
    double start = 1;
  } affected_;

  std::uint32_t launches_ = 0; // since the last wait
  ReferenceWindow window_;
  std::int64_t stop_ends_ns_ = 0; // at the latest; 0: there is no stop
  double doubted_ns_ = 0; // for so much longer the client saves up half as much
  double excess_ns_ = 0;  // that the audit has found lately
  double disbelief_ = 1;  // how many times as much it takes for a stop: the client was late by itself in the last ones
  double cycle_ns_ = 0;   // lately, from the end of a wait to the end of the next one
};

} // namespace fikit::policy::budget
