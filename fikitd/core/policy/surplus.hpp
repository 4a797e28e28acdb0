// What is earned while the budget is full is lost. So a client's budget, when it is nearly full, is spent on letting lower work go
// whatever is forecast, until less than a share of it is left: a cycle, which is over when it is nearly full again. Cycles go on
// where they pay: where lower work stands at the gate for so much less time as the client loses by them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "tuning.hpp"

namespace fikit::policy {

class Surplus {
 public:
  // Not in a segment that lasts longer than any that is over: what it costs is known at its end.
  bool spends(std::int64_t in_segment_ns) const { return spends_ && in_segment_ns <= longest_ns_; }

  // Lower work stood at the gate for the client's sake.
  void held(double ns) { here().held_ns += ns; }
  // longest_idle_ns: of those before like this one; 0: there was none.
  void begin_segment(std::int64_t now_ns, std::int64_t idle_ns, std::int64_t longest_idle_ns, const Tuning& tuning) {
    // Who was silent for much longer than ever may have been waiting for requests, which queue: there a delay is felt by many.
    constexpr std::int64_t kLonger = 4;
    const std::int64_t odd_ns = kLonger * longest_idle_ns + static_cast<std::int64_t>(tuning.odd_idle_ns);
    if (longest_idle_ns > 0 && idle_ns > odd_ns) odd_ns_ = now_ns, stop();
    in_segment_ = true;
    since_ns_ = now_ns;
    in_cycle_ = cycle_;
  }
  void end_segment(std::int64_t now_ns, std::int64_t span_ns, double late_ns, double remembered_ns) {
    count(now_ns);
    longest_ns_ = std::max(longest_ns_, span_ns);
    in_segment_ = false;
    if (in_cycle_) cycles_.late_ns += late_ns;
    if (cycles_.active_ns + others_.active_ns > remembered_ns) cycles_.fade(), others_.fade();
  }
  // filled: this share of a full budget is there.
  void see(std::int64_t now_ns, double filled, const Tuning& tuning) {
    count(now_ns);
    if (filled < tuning.surplus_kept || lost(tuning.surplus_ns)) spends_ = false;
    if (filled >= tuning.surplus_from) spends_ = cycle_ = pays(tuning.surplus_ns) && !was_odd(now_ns, tuning.remembered_ns);
    in_cycle_ |= cycle_;
  }
  // Requests come from outside, or may.
  void stop() { spends_ = cycle_ = false; }

 private:
  struct Period { // of the client's time in segments
    double active_ns = 0;
    double held_ns = 0; // lower work
    double late_ns = 0; // the client
    double held() const { return held_ns / std::max(active_ns, 1.0); }
    double late() const { return late_ns / std::max(active_ns, 1.0); }
    void fade() { active_ns /= 2, held_ns /= 2, late_ns /= 2; }
  };
  Period& here() { return cycle_ ? cycles_ : others_; }
  void count(std::int64_t now_ns) {
    const auto ns = static_cast<double>(now_ns - std::exchange(since_ns_, now_ns));
    if (in_segment_) here().active_ns += std::max(ns, 0.0);
  }
  // As far as is known: what was seen for a shorter time than that may be chance.
  bool pays(double enough_ns) const {
    if (others_.active_ns < enough_ns || lost(enough_ns)) return false;
    return cycles_.active_ns < enough_ns || cycles_.late() <= others_.held() - cycles_.held();
  }
  // It cannot pay any more, were nothing lost and nobody held for as long as it takes to tell.
  bool lost(double enough_ns) const { return cycles_.late_ns > others_.held() * std::max(cycles_.active_ns, enough_ns); }
  bool was_odd(std::int64_t now_ns, double remembered_ns) const {
    return odd_ns_ != 0 && static_cast<double>(now_ns - odd_ns_) < remembered_ns;
  }

  bool spends_ = false;
  bool cycle_ = false;
  bool in_cycle_ = false; // this segment was, at some time
  bool in_segment_ = false;
  std::int64_t since_ns_ = 0; // what came before is counted
  std::int64_t odd_ns_ = 0;
  std::int64_t longest_ns_ = 0; // of all segments that are over
  Period cycles_;
  Period others_;
};

} // namespace fikit::policy
