// Where a client's time goes: each instant is in one state, by the precedence of docs/elapsed.md. It is reckoned from launches, waits at
// the gate and completions, which the dispatcher knows anyway.
//
//   1. work     the device has work of the client that would not be done alone either; while the host waits, also its siblings' work, where
//               their kernels run in turns
//   2. waited   its host waits at the gate
//   3. delayed  its host waits for work that alone would be done
//   4. gap      its host runs by itself
//
// suspended stands before 2: its host is stopped by a signal, a debugger or a frozen control group.
//
// "alone" is the rest of the elapsed time: work, and gaps of the length that the profile has.
#pragma once

#include <algorithm>
#include <cstdint>

#include "types/moments.hpp"

namespace fikit::tracking {

// The work that the processes of one job launched on one GPU, reckoned as if the GPU served no other job.
class JobWork {
 public:
  void launched(std::int64_t t_ns, std::int64_t length_ns) {
    launched_ns_ += length_ns;
    dry_ns_ = std::max(dry_ns_, t_ns) + length_ns;
  }
  // Some of it took less time than predicted.
  void over_sooner(std::int64_t by_ns) {
    launched_ns_ -= by_ns;
    dry_ns_ -= by_ns;
  }
  std::int64_t done_ns(std::int64_t t_ns) const { return launched_ns_ - std::max<std::int64_t>(dry_ns_ - t_ns, 0); }

 private:
  std::int64_t launched_ns_ = 0;
  std::int64_t dry_ns_ = 0;
};

// Other jobs' work on the same GPU.
struct OthersWork {
  std::uint64_t kernels = 0; // launched so far
  bool under_way = false;    // some of them are not known to be complete
};

// A client's time so far. The rest of elapsed_ns, which no other field has, is the time alone.
struct Spent {
  std::int64_t elapsed_ns = 0;     // since the client came
  std::int64_t start_ns = 0;       // until its first launch waited at the gate or went through
  std::int64_t end_ns = 0;         // since its newest work was done; of a running client it becomes a gap at the next launch
  std::int64_t pauses_ns = 0;      // gaps from kPauseNs on: the program's own
  std::int64_t waited_ns = 0;      // at the gate
  std::int64_t delayed_ns = 0;     // on the device, while other jobs' kernels ran there
  std::int64_t suspended_ns = 0;   // its host was stopped, and none of its work was on the device
  std::int64_t late_ns = 0;        // its host took longer between launches than its profile says
  std::int64_t unexplained_ns = 0; // of kernels or gaps that no profile has, beside other jobs' kernels; or after lost reports
};

class TimeAccount {
 public:
  struct Whose {
    JobWork* job = nullptr; // of all the job's processes on this GPU; outlives the account; nullptr: no job
    bool measured = false;  // no other job runs beside it
    bool overlaps = false;  // MPS: its kernels run beside those of other processes, of its own job's too
  };
  TimeAccount(std::int64_t now_ns, Whose whose)
      : came_ns_(now_ns), now_ns_(now_ns), job_(whose.overlaps ? nullptr : whose.job), measured_(whose.measured), overlaps_(whose.overlaps) {}

  // A request waits at the gate from t_ns on; it left the gate by t_ns. take_gate_cost: what the gate has cost of the elapsed time until
  // t_ns, since the last call.
  void at_gate(std::int64_t t_ns);
  void left_gate(std::int64_t t_ns) { gate_until_ns_ = std::min(gate_until_ns_, t_ns); }
  std::int64_t take_gate_cost(std::int64_t t_ns);
  std::int64_t gate_cost(std::int64_t t_ns) const; // the same, and takes nothing

  // A launch: the device time that it takes alone, and the gap after it, as the profile has them; kUnknown: not known.
  struct Launch {
    std::int64_t t_ns = 0;
    std::int64_t work_ns = kUnknown;
    std::int64_t gap_ns = kUnknown;
    std::int64_t no_core_ns = 0; // for how much of the gap before it its host had no processor core, as far as known
  };
  void launched(const Launch& launch, const OthersWork& others);

  // Launches are known to be complete.
  struct Completion {
    std::int64_t t_ns = 0;
    std::int64_t began_ns = kLongAgo; // when the host began to wait for them; kLongAgo: it did not wait
    std::int64_t left_ns = 0;         // predicted work of the launches after them; kUnknown: not known
    bool all = false;                 // of all launches
  };
  void complete(const Completion& completion, const OthersWork& others);

  // Its host was stopped then.
  void stood(std::int64_t since_ns, std::int64_t until_ns) {
    go_on(since_ns, Host::runs);
    step(until_ns, Host::stands);
  }

  // The newest granted launch is complete: a host at the gate now waits for no earlier work of its own.
  void grant_done(std::int64_t t_ns) { unknown_over(t_ns); }

  // Reports were lost: the time until the next event is unexplained. The client's first launch counts as seen.
  void lost() {
    lost_ = begun_ = true;
    dry_ns_ = kLongAgo;
  }

  Spent spent(std::int64_t t_ns, const OthersWork& others) const;

 private:
  enum class Host { runs, waits, at_gate, stands };
  struct Sums { // of gaps and of late completions: those that can be compared with a profile, and the others
    std::int64_t gaps_ns = 0;
    std::int64_t expected_gaps_ns = 0;
    std::int64_t unknown_gaps_ns = 0;
    std::int64_t behind_ns = 0;  // waits for work that would be done alone
    std::int64_t sooner_ns = 0; // work that was done earlier than predicted
    std::int64_t unknown_ns = 0; // waits for work that no profile has, or at the gate meanwhile
    std::int64_t work_ns = 0;    // the work that these sums are about
    void add(const Sums& more);
    std::int64_t late_ns() const; // negative: the host was faster than its profile says
    std::int64_t delayed_ns() const;
  };
  struct Period { // from one moment at which all launches are complete to the next
    Sums sums;
    std::uint64_t launches = 0;
    std::uint64_t unknown = 0; // of these, without a known duration
    OthersWork others;         // at its beginning
  };
  double unknown_part() const; // of the period's launches
  std::int64_t delayed_ns() const;
  void at_gate_for(std::int64_t ns);
  void unknown_over(std::int64_t t_ns);
  void go_on(std::int64_t t_ns, Host host);
  void step(std::int64_t t_ns, Host host);
  void end_gap(std::int64_t no_core_ns);
  void end_period(const OthersWork& others);

  std::int64_t came_ns_;
  std::int64_t now_ns_; // time is accounted for until then
  JobWork* job_; // nullptr also under MPS, where the processes' kernels overlap
  bool measured_;
  bool overlaps_;
  bool begun_ = false;
  bool lost_ = false;
  bool gate_ = false;
  bool unknown_ = false; // work of unknown length may still be on the device
  std::int64_t gate_until_ns_ = kNever;
  std::int64_t gate_cost_ns_ = 0;  // for take_gate_cost(), not taken yet
  std::int64_t dry_ns_ = kLongAgo; // when its own work would be done alone
  std::int64_t job_done_ns_ = 0;   // job_->done_ns(now_ns_)
  std::int64_t gap_ns_ = 0;        // of the current gap
  std::int64_t expected_gap_ns_ = kUnknown;
  Period period_;
  Sums beside_;    // periods in which other jobs' kernels may have run
  Sums by_itself_; // the other periods
  std::int64_t start_ns_ = 0;
  std::int64_t pauses_ns_ = 0;
  std::int64_t waited_ns_ = 0;
  std::int64_t suspended_ns_ = 0;
  std::int64_t lost_ns_ = 0;
};

} // namespace fikit::tracking
