// Where a client's time goes: each instant is in one state, by the precedence of docs/elapsed.md. What the dispatcher knows is
// enough for it: launches, waits at the gate, completions. Nothing is asked of the client.
//
//   1. work     the device has work of the client to do that alone would take so long; for a host that waits, also its siblings',
//               where their kernels run in turns
//   2. waited   its host stands at the gate
//   3. delayed  its host waits for work that alone would be done
//   4. gap      its host runs by itself
//
// "alone" is what is left of the elapsed time: work, and gaps as long as in the profile.
#pragma once

#include <algorithm>
#include <cstdint>

#include "types/moments.hpp"

namespace fikit::tracking {

// What the processes of one job launched on one GPU, reckoned as on a device that serves nobody else.
class JobWork {
 public:
  void launched(std::int64_t t_ns, std::int64_t length_ns) {
    launched_ns_ += length_ns;
    dry_ns_ = std::max(dry_ns_, t_ns) + length_ns;
  }
  // Some of it took less time than was reckoned.
  void over_sooner(std::int64_t by_ns) {
    launched_ns_ -= by_ns;
    dry_ns_ -= by_ns;
  }
  std::int64_t done_ns(std::int64_t t_ns) const { return launched_ns_ - std::max<std::int64_t>(dry_ns_ - t_ns, 0); }

 private:
  std::int64_t launched_ns_ = 0;
  std::int64_t dry_ns_ = 0;
};

// What other jobs do on the same GPU.
struct OthersWork {
  std::uint64_t kernels = 0; // that they have sent to it so far
  bool under_way = false;    // some of them are not known to be complete
};

// A client's time so far, in nanoseconds. What none of these names was spent as alone.
struct Spent {
  std::int64_t elapsed_ns = 0;     // since the client came
  std::int64_t start_ns = 0;       // of it, until its first launch stood at the gate or went through
  std::int64_t end_ns = 0;         // since its newest work was done; while it runs, the next launch may end a gap
  std::int64_t pauses_ns = 0;      // gaps from kPauseNs on: the program's own
  std::int64_t waited_ns = 0;      // at the gate
  std::int64_t delayed_ns = 0;     // on the device, while other jobs' kernels ran there
  std::int64_t late_ns = 0;        // its host took longer between launches than its profile says
  std::int64_t unexplained_ns = 0; // beside other jobs' kernels, with kernels or gaps that no profile knows; lost reports
};

class TimeAccount {
 public:
  struct Whose {
    JobWork* job = nullptr; // of all its processes on this GPU, outlives the account; nullptr: it belongs to none
    bool measured = false;  // its gate keeps others away
    bool overlaps = false;  // its kernels run beside those of other processes, its siblings' too (MPS)
  };
  TimeAccount(std::int64_t now_ns, Whose whose)
      : came_ns_(now_ns), now_ns_(now_ns), job_(whose.overlaps ? nullptr : whose.job), measured_(whose.measured), overlaps_(whose.overlaps) {}

  // A request stands at the gate since then. It is gone, or its launch is reported by now. What of the time until t_ns the gate
  // has cost, since it was last asked.
  void at_gate(std::int64_t t_ns);
  void left_gate(std::int64_t t_ns) { gate_until_ns_ = std::min(gate_until_ns_, t_ns); }
  std::int64_t take_gate_cost(std::int64_t t_ns);
  std::int64_t gate_cost(std::int64_t t_ns) const; // the same, and it may be asked again

  // A launch that alone takes the device so long, after which its host needs so long for the next; kUnknown: nobody knows.
  struct Launch {
    std::int64_t t_ns = 0;
    std::int64_t work_ns = kUnknown;
    std::int64_t gap_ns = kUnknown;
    std::int64_t no_core_ns = 0; // of the gap before it its host, ready to run, waited for a processor core, as far as that is known
  };
  void launched(const Launch& launch, const OthersWork& others);

  // Launches are known to be complete, all or up to one.
  struct Completion {
    std::int64_t t_ns = 0;
    std::int64_t began_ns = kLongAgo; // since then the host had waited for it; kLongAgo: it had not
    std::int64_t left_ns = 0;         // of launches after it, as predicted; kUnknown: nobody knows
    bool all = false;
  };
  void complete(const Completion& completion, const OthersWork& others);

  // What was granted last is complete, so that a host at the gate stands behind nothing of its own any more.
  void grant_done(std::int64_t t_ns) { unknown_over(t_ns); }

  // Reports were lost: what the client did until the next event is not known. It had launched before.
  void lost() {
    lost_ = begun_ = true;
    dry_ns_ = kLongAgo;
  }

  Spent spent(std::int64_t t_ns, const OthersWork& others) const;

 private:
  enum class Host { runs, waits, at_gate };
  struct Sums { // of gaps and lateness that can be compared with a profile, and of those that cannot
    std::int64_t gaps_ns = 0;
    std::int64_t expected_gaps_ns = 0;
    std::int64_t unknown_gaps_ns = 0;
    std::int64_t behind_ns = 0;
    std::int64_t sooner_ns = 0; // work that was done before it was reckoned to be
    std::int64_t unknown_ns = 0; // behind work that no profile knows, or at the gate meanwhile
    std::int64_t work_ns = 0;    // of which all this is known
    void add(const Sums& more);
    std::int64_t late_ns() const; // less than 0: its host was faster than its profile says
    std::int64_t delayed_ns() const;
  };
  struct Period { // from one moment at which all is complete to the next
    Sums sums;
    std::uint64_t launches = 0;
    std::uint64_t unknown = 0; // of them
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
  std::int64_t now_ns_; // until then all is accounted for
  JobWork* job_; // nullptr also where its processes' work overlaps
  bool measured_;
  bool overlaps_;
  bool begun_ = false;
  bool lost_ = false;
  bool gate_ = false;
  bool unknown_ = false; // work of unknown length is not known to be complete
  std::int64_t gate_until_ns_ = kNever;
  std::int64_t gate_cost_ns_ = 0; // not taken yet
  std::int64_t dry_ns_ = kLongAgo; // its own work is done then, as alone
  std::int64_t job_done_ns_ = 0;   // at now_ns_
  std::int64_t gap_ns_ = 0;        // that has not ended
  std::int64_t expected_gap_ns_ = kUnknown;
  Period period_;
  Sums beside_; // other jobs' kernels
  Sums by_itself_;
  std::int64_t start_ns_ = 0;
  std::int64_t pauses_ns_ = 0;
  std::int64_t waited_ns_ = 0;
  std::int64_t lost_ns_ = 0;
};

} // namespace fikit::tracking
