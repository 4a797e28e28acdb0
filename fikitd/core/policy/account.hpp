// What a client has been delayed by lower ones, and may still be: its slowdown budget.
//
// Between two waits of its host a client only enqueues, so work of others that delays its kernels delays nothing else, as
// long as it is done by the end of the next wait anyway. Only what makes a wait end later is a delay. It is expected from
// the client's slack before a lower kernel is granted, and measured when the wait is over.
#pragma once

#include <algorithm>
#include <cstdint>

#include "depth.hpp"
#include "ease.hpp"
#include "events.hpp"
#include "surplus.hpp"

namespace fikit::policy {

class Account {
 public:
  void begin(std::int64_t now_ns, const Tuning& tuning, double max_slowdown) {
    *this = Account{}, since_ns_ = now_ns, tuning_ = &tuning;
    earn(tuning.advance_ns, max_slowdown);
  }

  void use(const Tuning& tuning) { tuning_ = &tuning; } // the same, at another place

  // Whatever it launches first, that has such a slack.
  void profiled(const Times& slack) {
    if (fresh_) slack_ = slack;
  }
  void launched(const Event& event, const Client& client, double max_slowdown);
  void seen(const Client& client) { finish_ns_ = client.progress.finish_ns(); } // how far its work is
  void waited(const Event& event, double max_slowdown); // its host has waited for all its work

  // How much later than alone its next wait is expected to end, if others have the device until busy_until_ns. At one
  // moment, for any number of such ends.
  class Delays {
   public:
    // How probably is the client back by then, if it is at rest now? step_ns: the shortest time that matters.
    double returned_by(std::int64_t t_ns, std::int64_t step_ns) const {
      const std::int64_t felt_ns = t_ns + slack_ns_;
      return (until_ns(felt_ns) - until_ns(felt_ns - step_ns)) / static_cast<double>(step_ns);
    }
    std::int64_t slack_ns() const { return slack_ns_; } // of its first launch when it is back
    double until_ns(std::int64_t busy_until_ns) const { return at(busy_until_ns).mean_ns; }
    // With its slope, which grows with the end.
    Remaining::At at(std::int64_t busy_until_ns) const {
      const auto since_ns = busy_until_ns - origin_ns_;
      return certain_ ? Remaining::At{.mean_ns = static_cast<double>(since_ns), .share = 1} : remaining_.at(since_ns);
    }

   private:
    friend class Account;
    bool certain_ = false; // all of it is a delay
    std::int64_t origin_ns_ = 0;
    std::int64_t slack_ns_ = 0; // part of that
    Remaining remaining_;
  };
  void expect(std::int64_t now_ns, Delays& delays) const;
  double expected_delay_ns(std::int64_t busy_until_ns, std::int64_t now_ns) const {
    Delays delays;
    expect(now_ns, delays);
    return delays.until_ns(busy_until_ns);
  }
  // Until then that does not change by itself, for ends beyond it; now_ns: it changes all the time.
  std::int64_t steady_until_ns(std::int64_t now_ns) const {
    return in_segment_ && !depth_.high(finish_ns_ - now_ns) ? std::max(finish_ns_ + kWordNs, now_ns) : now_ns;
  }
  // The same if everything comes as badly as it usually does at worst.
  std::int64_t longest_delay_ns(std::int64_t busy_until_ns, std::int64_t now_ns) const;

  // What may be spent at one moment, on any number of kernels.
  class Means {
   public:
    struct Line { // what a delay may be, by the device time that lower work gains by it
      double share = 0;
      double fixed_ns = 0;
      double at(double gain_ns) const { return fixed_ns + share * gain_ns; }
    };
    // May lower work of this length be granted, if it is expected to delay the client by so much?
    bool affords(double delay_ns, std::int64_t length_ns) const {
      return covers(delay_ns) && any_ && delay_ns <= worth_ns(static_cast<double>(length_ns));
    }
    // What may a gain of so much device time delay the client, on average?
    double worth_ns(double gain_ns) const {
      const double most_ns = price().at(gain_ns);
      return dearer_than_fair() ? std::min(most_ns, fair().at(gain_ns)) : most_ns;
    }
    Line price() const { return {.share = any_ ? price_ / weight_ : 0}; }
    // Where that may be more than those who wait behind each other shall lose, together: no more than lower work gains, the time
    // that it takes, and, when nobody waits, for which it has stood at the gate.
    bool dearer_than_fair() const { return from_outside_ && any_ && price_ > 1; }
    Line fair() const { return {.share = 1 / weight_, .fixed_ns = stood_ns_ / weight_}; }
    bool covers(double delay_ns) const { return weight_ * delay_ns * if_queued_ <= left_ns_; }
    double most_ns() const { return left_ns_ / (weight_ * if_queued_); } // of a delay that is covered

   private:
    friend class Account;
    double weight_ = 1;    // so many requests feel a delay
    double if_queued_ = 1; // and if they meet a queue, so many times as many
    double left_ns_ = 0;   // of the budget
    double price_ = 0;
    double stood_ns_ = 0; // lower work, since some went, where that counts
    bool from_outside_ = false; // its requests come from there
    bool any_ = false; // false: only what costs nothing
  };
  Means means(std::int64_t now_ns, bool at_work, double max_slowdown) const;
  bool affords(double delay_ns, std::int64_t length_ns, std::int64_t now_ns, bool at_work, double max_slowdown) const {
    return means(now_ns, at_work, max_slowdown).affords(delay_ns, length_ns);
  }
  // delay_ns: what is forecast of all that is on the device, with this lower work of length_ns.
  // let_go: whatever is forecast.
  void spend(double delay_ns, std::int64_t length_ns, std::int64_t now_ns, bool let_go);
  // delay_ns: what is expected of this copy, which keeps nobody's kernels from the device.
  void spend_on_copy(double delay_ns, std::int64_t length_ns, std::int64_t now_ns);
  // Lower work that was granted took so much longer than was reckoned.
  void overran(double ns) { others_ns_ += ns; }
  // It handed over a copy while one of a lower client was under way, as is reckoned until then.
  void copy_stands(std::int64_t now_ns, std::int64_t until_ns) {
    if (copy_stands_.until_ns <= now_ns) copy_stands_.since_ns = now_ns;
    copy_stands_.until_ns = until_ns;
  }
  // That one, if it was granted before, is over.
  void lower_copy_over(std::int64_t granted_ns, std::int64_t t_ns) {
    if (granted_ns <= copy_stands_.since_ns) copy_stands_.until_ns = t_ns;
  }

  // Lower work stood at the gate for so long for this client's sake.
  void refused(double ns) { ease_.held(ns), surplus_.held(ns), stood_ns_ += ns; }
  // Nearly all lower work was let go lately, and cost next to nothing: then to refuse nothing costs little, too.
  bool at_ease(std::int64_t now_ns, const Protection& protection) const;
  // Lower work of this length may go whatever is forecast, if the device is taken until begin_ns; 0: none.
  std::int64_t lets_go_ns(std::int64_t begin_ns, std::int64_t now_ns, const Protection& protection) const;

  // Has lower work lately cost what it was expected to?
  bool foreseeable() const { return surprise_ns_ <= tuning_->surprise * others_lately_ns_; }

  // Lower work has cost more than there was to spend: forecasts were too kind.
  bool overdrawn() const { return balance_ns_ < 0; }

  // Both: it was cost more than there was to spend although less was expected. Then more is feared.
  bool doubtful() const { return overdrawn() && !foreseeable(); }

  // Its requests come from outside, and one is there, or may be: what delays it delays those that wait behind it.
  bool others_may_wait(std::int64_t now_ns) const { return arrivals_ && !found_nobody(now_ns); }
  // From then on that is not so, if it launches nothing before; 0: there is no such moment.
  std::int64_t nobody_waits_from_ns() const { return arrivals_ && open_ && !in_segment_ ? late_from_ns() : 0; }

  double balance_ns() const { return balance_ns_; }
  bool in_segment() const { return in_segment_; } // else spending changes nothing of what is expected

 private:
  static constexpr std::int64_t kWordNs = 100'000; // the word that a wait is over may be so late: two polls, one thread switch
  const Tuning* tuning_ = nullptr;
  void compare(double delay_ns);
  void earn(double progress_ns, double max_slowdown);
  void take(double spent_ns, std::int64_t length_ns);
  void begin_segment(std::int64_t now_ns);
  std::int64_t copies_ns(std::int64_t idle_ns) const;
  void request_ended(std::int64_t now_ns, double max_slowdown);
  void see_arrivals(std::int64_t now_ns);
  double measured_delay_ns(const Event& event) const; // of the wait that ends
  bool found_nobody(std::int64_t now_ns) const;
  std::int64_t late_from_ns() const; // a request that had been waiting would have begun before
  double left_ns(std::int64_t now_ns) const; // of the budget
  double times_saved() const { return arrivals_ ? tuning_->arrivals_saved : 1; }
  double full_ns(double max_slowdown) const { return max_slowdown * tuning_->saved_ns * times_saved(); } // the budget, when it is full
  double plenty(double filled) const; // 0: none is left; without end: it is full
  double filled(std::int64_t now_ns, double max_slowdown, bool at_work) const; // this share of the budget
  double highest_price(std::int64_t now_ns, double max_slowdown) const; // however full the budget is
  bool mostly_holds(std::int64_t now_ns) const { return ease_.holds_more(tuning_->held, in_this_segment_ns(now_ns), tuning_->enough_ns); }
  void see_surplus(std::int64_t now_ns, double max_slowdown);
  std::int64_t earliest_wait_ns(std::int64_t now_ns) const; // the end of its wait, or of the next one, alone
  std::int64_t in_this_segment_ns(std::int64_t now_ns) const { return in_segment_ ? now_ns - first_ns_ : 0; }
  void see_load();
  double weight(std::int64_t now_ns) const;

  // This segment.
  bool fresh_ = true;       // nothing was launched yet
  bool in_segment_ = false; // something was launched since the last wait
  std::int64_t first_ns_ = 0;
  std::int64_t alone_dry_ns_ = 0; // as the newest launch had it
  std::int64_t finish_ns_ = 0; // with others; what was granted since its last launch may still come between
  std::int64_t earned_until_ns_ = 0;
  Depth depth_;
  double others_ns_ = 0;   // length of what lower clients were granted since the last wait
  double left_over_ns_ = 0; // of that before, which may be on the device still
  double spent_ns_ = 0;    // of the budget, for what that is expected to cost
  double uncharged_ns_ = 0; // forecasts of what was let go
  double stood_ns_ = 0;    // lower work stood at the gate for so long for its sake, since some went
  double expected_ns_ = 0; // of that: for the kernels that were on the device when the last one was granted
  Times slack_;            // of the last launch; between segments, of the next one
  // Between segments.
  std::int64_t since_ns_ = 0; // end of the last wait
  Times idle_;
  std::int64_t alone_idle_ns_ = kUnknown; // as Outlook has it
  struct { // its newest copy that was handed over behind one of a lower client
    std::int64_t since_ns = 0;
    std::int64_t until_ns = 0;
  } copy_stands_;

  Ease ease_;
  Surplus surplus_;
  double surprise_ns_ = 0;      // lately: delays that were not expected
  double others_lately_ns_ = 0; // lately: what lower clients were granted

  double balance_ns_ = 0;
  double carried_ns_ = 0; // by so much the client is later than alone: what ends next responds so much later
  struct {                // requests that were served without a pause
    std::int64_t begin_ns = 0;
    double served = 0;
    double waited_ns = 0; // together, as far as is counted
  } queue_;
  struct {
    double inside = 1;
    double start = 1;
  } affected_;               // by a delay: so many requests respond later, if others may wait behind, or if none can
  bool arrivals_ = false;    // its requests come from outside
  struct {                   // if so
    std::int64_t begin_ns = 0;
    std::int64_t longest_ns = 0; // of those before, with the idle time before it
  } request_;
  bool open_ = false;        // the last wait ended a request
  double active_ns_ = 0;     // lately, in segments
  double at_rest_ns_ = 0;    // lately, between them
};

} // namespace fikit::policy
