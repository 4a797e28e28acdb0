// What lower work has cost a client, what it may still cost, and what a ns of the client's delay is worth: its slowdown budget.
//
// A client's host launches a segment, then waits until all of it is done. Only what makes such a wait end later is a delay. The budget
// grows with the client's own progress, and pays for delays: for expected ones when lower work is granted, for the real one when
// the wait is over.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "forecast.hpp"
#include "policy/base/events.hpp"
#include "policy/base/queue_depth.hpp"

namespace fikit::policy::budget {

class SlowdownBudget {
 public:
  void begin(std::int64_t now_ns, const Tuning& tuning, double max_slowdown);
  void use(const Tuning& tuning) { tuning_ = &tuning; } // the same, in another policy

  // What the client reports.
  void profiled(const TimeQuantiles& slack) {
    if (fresh_) slack_ = slack; // whatever it launches first
  }
  void launched(const Event& event, const Client& client);
  void seen(const Client& client) { finish_ns_ = client.progress.finish_ns(); } // how far its work is, as reckoned
  void told() { behind_ns_ = 0; }                                               // and as its marks say
  void waited(const Event& event);                                            // its host has waited for all its work

  void forecast(std::int64_t now_ns, Forecast& made) const;
  // Of that, so much is expected to come true, by what has.
  double calibration(std::int64_t now_ns) const;
  // And so much comes unforeseen with each ns of lower work.
  double surcharge(std::size_t when) const { return unforeseen_[when].share(tuning_->enough_ns / 4); }
  std::size_t when(bool at_work) const { return in_segment_ ? 1 + static_cast<std::size_t>(at_work) : 0; }
  // So many requests feel a delay now.
  double affected(std::int64_t now_ns) const;
  // What of that is feared: of a full budget something is spent on finding out whether it still comes. Where nothing may be spent
  // nobody could ever find out: there only what has been seen is feared.
  double feared_surcharge(std::int64_t now_ns, bool at_work) const {
    const std::size_t at = when(at_work);
    const double share = max_slowdown_ > 0 ? (1 - filled(now_ns)) * surcharge(at) : unforeseen_[at].seen(tuning_->enough_ns / 4);
    return share * exposed(now_ns);
  }
  // What a delay may be at most, if each of the affected requests feels it.
  double covers_ns(std::int64_t now_ns) const;
  // What lower work's gain of one ns of the device may delay the client by. at_work: its kernels are on the device.
  double worth(std::int64_t now_ns, bool at_work) const;

  // Lower work is granted. more_ns: of delay is forecast because of it, all_ns: of all that is on the device (with calibration);
  // takes_ns: of the device, with its switches.
  void spend(double more_ns, double all_ns, double takes_ns, std::int64_t now_ns, bool at_work);
  void overran(std::int64_t ns) { // what was granted took so much longer than was reckoned
    others_ns_ += static_cast<double>(ns);
    if (in_segment_) behind_ns_ += ns;
  }
  // A copy of it: in a queue of its own.
  void spend_on_copy(double delay_ns, double takes_ns, std::int64_t now_ns);
  void copy_stands(std::int64_t now_ns, std::int64_t until_ns) { // behind one of lower work
    if (copy_.until_ns <= now_ns) copy_.since_ns = now_ns;
    copy_.until_ns = until_ns;
  }
  void lower_copy_over(std::int64_t granted_ns, std::int64_t t_ns) {
    if (granted_ns <= copy_.since_ns) copy_.until_ns = t_ns;
  }

  bool doubtful(bool at_work) const { // much comes unforeseen
    return unforeseen_[when(at_work)].seen(tuning_->enough_ns / 4) > kFeared / 4;
  }
  bool wary() const { return std::max(surcharge(1), surcharge(2)) > kFeared / 4; } // it is, or nobody knows yet
  bool back_early() const { return in_segment_ && surcharge(0) > kFeared / 10; } // and seldom when it was expected
  bool overdrawn(std::int64_t now_ns) const { return left_ns(now_ns) < 0; }
  bool in_segment() const { return in_segment_; }
  // Its requests come from outside, and one is there, or may be.
  bool others_may_wait(std::int64_t now_ns) const { return arrivals_ && !found_nobody(now_ns); }
  std::int64_t nobody_waits_from_ns() const { return arrivals_ && open_ && !in_segment_ ? late_from_ns() : 0; } // 0: never

 private:
  static constexpr std::int64_t kWordNs = 100'000; // the word that a wait is over may be so late
  double share_of(double progress_ns) const { return max_slowdown_ / tuning_->reserve * progress_ns; }
  void earn(double progress_ns);
  double away_ns(std::int64_t now_ns) const; // for so much longer than it ever did it has neither launched nor had work on the device
  double full_ns() const;
  double left_ns(std::int64_t now_ns) const;
  double filled(std::int64_t now_ns) const { return full_ns() <= 0 ? 0 : std::clamp(left_ns(now_ns) / full_ns(), 0.0, 0.999); }
  void begin_segment(std::int64_t now_ns);
  double copies_ns(std::int64_t idle_ns) const;
  double measured_delay_ns(const Event& event) const;
  void compare(double delay_ns);
  void see_arrivals(std::int64_t now_ns);
  void request_ended(std::int64_t now_ns);
  void see_load();
  double load(double at_rest_ns) const;
  bool found_nobody(std::int64_t now_ns) const { return open_ && !in_segment_ && now_ns >= late_from_ns(); }
  double exposed(std::int64_t now_ns) const; // of lower work so much may meet what is unforeseen
  std::int64_t late_from_ns() const; // a request that had been waiting would have begun before
  std::int64_t earliest_wait_ns(std::int64_t now_ns) const;

  const Tuning* tuning_ = nullptr;
  double max_slowdown_ = 0;
  double balance_ns_ = 0;
  double carried_ns_ = 0; // by so much the client is later than alone; requests that end pay for it
  double paid_away_ns_ = 0; // of the next delay: earned while it stayed away

  // This segment.
  bool fresh_ = true; // nothing was launched yet
  bool in_segment_ = false;
  std::int64_t first_ns_ = 0;
  std::int64_t alone_dry_ns_ = 0; // alone all that was launched would be done then
  std::int64_t finish_ns_ = 0; // with others
  std::int64_t behind_ns_ = 0; // its work is later than reckoned by so much, as the ends of lower work say
  std::int64_t earned_until_ns_ = 0;
  QueueDepth depth_;
  TimeQuantiles slack_;            // of the last launch; between segments, of the next one
  double others_ns_ = 0;   // of the device, for lower work granted since the last wait
  double left_over_ns_ = 0; // of that before, which may be on the device still
  double forecast_ns_ = 0; // what was forecast of all that, grant by grant
  double spent_ns_ = 0;    // of the budget, for what all that is expected to cost
  double expected_ns_ = 0; // of that: for what is on the device now
  // Between segments.
  std::int64_t since_ns_ = 0; // end of the last wait
  TimeQuantiles idle_;
  std::int64_t alone_idle_ns_ = kUnknown;
  struct { // its newest copy that was handed over behind one of a lower client
    std::int64_t since_ns = 0;
    std::int64_t until_ns = 0;
  } copy_;

  struct { // lately, of delays
    double forecast_ns = 0;
    double foreseen_ns = 0; // of that came true
  } seen_;
  static constexpr double kFeared = 0.2; // where nothing is known yet
  struct Unforeseen { // lately, beside lower work that was granted while the client's kernels were, or were not, on the device
    double delay_ns = 0;
    double lower_ns = 0; // of the device
    double now_ns = 0;   // of that, in this segment: nobody knows yet what it costs
    // All of it at most: that a piece took longer than was reckoned is no share of the next one.
    double seen(double doubt_ns) const { return std::min(delay_ns / (lower_ns + doubt_ns), 1.0); }
    double share(double doubt_ns) const {
      const double doubt = doubt_ns / (lower_ns + doubt_ns); // fades as waits say what lower work has cost
      return seen(doubt_ns) + kFeared * doubt * doubt;
    }
  };
  std::array<Unforeseen, 3> unforeseen_{}; // at rest, between kernels, at work

  // Requests from outside.
  bool open_ = false; // the last wait ended a request
  bool arrivals_ = false;
  struct {
    std::int64_t begin_ns = 0;
    std::int64_t longest_ns = 0;
  } request_;
  struct { // served without a pause
    std::int64_t begin_ns = 0;
    double served = 0;
    double waited_ns = 0;
  } queue_;
  double active_ns_ = 0; // lately, in requests
  double at_rest_ns_ = 0; // lately, between them
  struct {
    double inside = 1;
    double start = 1;
  } affected_;
};

} // namespace fikit::policy::budget
