// One client of a GPU: turns the reports on its page into events of the policy, and accounts for its time. The dispatcher and the
// simulator both drive it, each with its own pages and its own clock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "client_page.hpp"
#include "forecaster/forecaster.hpp"
#include "grant_watch.hpp"
#include "insight.hpp"
#include "marks.hpp"
#include "own_clock.hpp"
#include "pending_samples.hpp"
#include "policy/policy.hpp"
#include "predictor/accesses.hpp"
#include "predictor/model.hpp"
#include "tracking/accounting/host_cores.hpp"
#include "tracking/accounting/interference.hpp"
#include "tracking/accounting/journal.hpp"
#include "tracking/accounting/launch_stats.hpp"
#include "tracking/accounting/stats.hpp"
#include "tracking/accounting/time_account.hpp"
#include "tracking/accounting/wait_book.hpp"
#include "tracking/ranks/collective_kernels.hpp"
#include "tracking/ranks/siblings.hpp"
#include "tracking/switching/switch_watch.hpp"
#include "tracking/switching/traffic.hpp"

namespace fikit::tracking {

using policy::ClientId;

// Measured durations of kernels, and of the gaps after them.
struct Timed {
  predictor::Model alone;
  predictor::Model beside;   // while other jobs used the GPU, so too long: used only where there is nothing better
  predictor::Model doubtful; // alone, but inexact: a kernel's first launch includes its loading
  // Kernels in `alone` that are known only from runs of the same program with other arguments.
  std::unordered_set<predictor::Identity> borrowed;
};

// The client that a tracker follows.
struct Tracked {
  ClientId id = 0;
  int priority = 5;
  bool measure = false;
  bool overlaps = false; // its kernels run beside those of others (MPS): no turns, no switch
  std::shared_ptr<Gang> gang;         // set if and only if siblings is
  std::shared_ptr<Siblings> siblings; // the job's processes on this GPU; nullptr: the client belongs to no job
  std::size_t journal = 0;            // how many of its newest events are kept
  std::int64_t look_ns = policy::kHorizonNs; // the longest time from a mark being reached to its being seen
  std::shared_ptr<predictor::Room> room; // that all it makes us keep has to fit into; nullptr: any
};

class ClientTracker {
 public:
  // page: the client's. traffic: its GPU's. Both outlive the tracker.
  ClientTracker(Tracked client, ClientPage& page, const policy::Options& options, std::int64_t now_ns, Traffic& traffic);

  ClientId id() const { return id_; }
  bool measuring() const { return measure_; }
  bool closed() const { return closed_; }
  Siblings* siblings() const { return siblings_.get(); }
  // Every launch on the page's counter has been reported and is known to be complete.
  bool all_complete() const { return complete_ >= launches_ && launches_ == page_.launches(); }
  bool marks_out() const { return marks_.any(); }
  bool waiting() const { return posted_ != 0; } // a request stands at the gate, without grant
  bool undescribed() const { return undescribed_; } // the request is left there until its kernel's description comes
  bool on_run() const { return run_.until > page_.launches(); } // its newest grant covers launches still to come
  bool has_run() const { return run_.until != 0; } // its newest grant covered several launches, and its lease is not over
  bool owes_launch() const { return owes_launch_; } // the launch of the newest grant is not reported yet
  bool gang_news(std::int64_t now_ns) { return collective_kernels_.awaited(now_ns) != awaited_; }
  bool is_news(const Request& request) const {
    return closed_ && request.waiting && request.sequence != posted_ && request.sequence != granted_;
  }
  std::uint32_t take_passed() { return std::exchange(passed_, 0U); } // launches since the last call that a grant covered after its first
  std::int64_t first_ns() const { return first_ns_; } // the earliest time of this round's reports and requests

  // One round calls these in this order: marks, reports, marks again, gang, request. Those that return bool say whether they found something new.
  void begin_round(std::int64_t now_ns) { first_ns_ = now_ns; }
  bool look_at_marks(std::int64_t now_ns, policy::Policy& policy);
  std::int64_t time_of(const Report& report, std::int64_t now_ns) const; // the report's time, clamped to what is possible
  void take(const Report& report, std::int64_t now_ns, policy::Policy& policy);
  void lost_reports(std::uint64_t launches, policy::Policy& policy); // launches: the page's counter now
  bool look_at_gang(std::int64_t now_ns, policy::Policy& policy);
  // patient: the request of a new kernel may wait a moment for the kernel's description.
  bool look_at_request(const Request& request, bool patient, std::int64_t now_ns, policy::Policy& policy);
  // The same while it is another process's turn: the policy does not hear of a launch at the gate, whose wait has the reason `hold`. A copy
  // is looked at as usual.
  bool keep_request(const Request& request, const policy::WaitReason& hold, bool patient, std::int64_t now_ns, policy::Policy& policy);
  // Is the description of a new slot that was used at t_ns probably on its way?
  bool describes_soon(std::uint32_t slot, std::int64_t t_ns, std::int64_t now_ns);

  // The client has left its dispatcher. What was learnt of it may still be asked for.
  void leave(std::int64_t now_ns) { collective_kernels_.leave(now_ns), switch_watch_.leave(now_ns), note_under_way(0); }
  // Goes on with a page that a previous fikitd made: nothing is known of the `launches` so far.
  void resume(std::uint64_t launches);

  // Decisions of the policy.
  void gate_opened(std::int64_t now_ns);
  void gate_closed() { closed_ = true; }
  // Grants the request and the launches after it, `launches` in all. False: the request is a copy.
  bool grant(std::uint32_t request, std::uint32_t launches, std::int64_t now_ns);
  void extend_run(std::uint32_t launches); // the newest grant covers so many launches more
  void end_run(); // the newest grant covers no further launch
  void end_old_run(std::int64_t now_ns) {
    if (run_.until != 0 && now_ns >= run_.lease_ns) end_run();
  }
  void held(const policy::WaitReason& hold, std::int64_t now_ns) { wait_book_.decided(hold, now_ns); }
  // Are marks behind its work wanted? Yes if another client waits at a closed gate for what this one launches through its open gate.
  bool awaited_by(bool any_gate_closed) const { return any_gate_closed && !closed_ && !measure_; }
  void set_alone(bool alone); // no other client uses its GPU
  void set_priority(int priority) { switch_watch_.set_level(priority); }
  // For its granted launches that became complete since the last call: when each ran, as reckoned.
  std::span<const Ran> take_ran(); // valid until the next report
  // take_ran() of a lower client.
  void lower_ran(ClientId lower, std::span<const Ran> ran);
  void kernels_of_other(std::uint32_t count) { gaps_.kernels_of_other(count); }

  // Somebody looked at now_ns, when nothing had been reported since `since_ns`, whether the client's host is stopped.
  void see_host(bool stopped, std::int64_t since_ns, std::int64_t now_ns, policy::Policy& policy);
  bool stands() const { return stands_since_ns_ != policy::kNever; }

  void describe(std::uint32_t slot, const predictor::Kernel& kernel); // slot in 1 .. FIKIT_SLOTS - 1
  // accesses: of `before`; apart, so that it is not copied here.
  void set_profile(Timed profile, const forecaster::Learnt& before, std::shared_ptr<const predictor::AccessesLearnt> accesses);
  forecaster::Learnt learnt() const; // in this run
  const predictor::Accesses* accesses() const { return accesses_.get(); } // nullptr: its shim does not report which memory kernels touch
  void set_forecaster(forecaster::Forecaster forecaster) { forecaster_ = std::move(forecaster); }
  void set_insight(Insight* insight) { insight_ = insight; } // outlives the tracker; nullptr: none
  const std::shared_ptr<predictor::Room>& room() const { return room_; }
  policy::Outlook profiled() const { return forecaster_.profiled(); }
  const Timed& measured() const { return measured_; }
  const forecaster::Forecaster& forecaster() const { return forecaster_; }
  std::vector<Idle> idle_moments() const { return idle_.items(); }
  // slot_launches: launches by slot, from the page's counters.
  Stats stats(const Counters& counters, std::span<const std::uint64_t> slot_launches, std::int64_t now_ns) const;
  Spent spent(std::int64_t now_ns) const { return account_.spent(now_ns, others_work()); }
  const Journal& journal() const { return journal_; }
  std::vector<JournalEvent> events(std::int64_t now_ns) const; // the journal, and the current wait
  std::vector<std::string> kernel_names() const; // by slot; "" for slots without a kernel

 private:
  struct Drain {
    std::uint64_t launches = 0; // how many are complete
    std::int64_t t_ns = 0;
    std::int64_t since_ns = policy::kLongAgo; // when they were last known not to be
    bool waited = true;                       // a synchronisation of the host says so; false: a mark does
    std::int64_t began_ns = policy::kLongAgo; // when the host began to wait
  };
  // t_ns: when it happened; now_ns: when this round began.
  void launch(const Report& report, std::int64_t t_ns, std::int64_t now_ns, policy::Policy& policy);
  void drained(const Drain& drain, std::int64_t now_ns, policy::Policy& policy);
  Moment ended(const Drain& drain) const;
  void put_mark(const Report& report, std::int64_t t_ns, const policy::Policy& policy);
  // The grant's work was complete at t_ns, and was not at since_ns.
  void grant_done(std::uint32_t request, std::int64_t since_ns, std::int64_t t_ns, policy::Policy& policy);
  void tell(policy::Event& event, policy::Policy& policy);
  void goes_on(std::int64_t t_ns, policy::Policy& policy); // its host, if it stood
  // Does the forecaster learn of the client? It does for policies that look ahead, and for the profile of a measured run.
  bool foresees(const policy::Policy& policy) const { return measure_ || policy.looks_ahead(); }

  // tracker_prediction.cpp
  struct Predicted {
    predictor::Prediction profiled;  // from the profile
    predictor::Prediction alone;     // the same; gaps in it filled with times that this run measured alone on the GPU
    predictor::Prediction completed; // the same; what is left filled with times beside others and doubtful ones
  };
  const Predicted& predict(std::uint32_t slot, std::int64_t t_ns);
  void doubt(predictor::DurationPrediction& found, std::uint32_t slot, std::int64_t t_ns) const;
  void watch_grant(std::uint32_t request, std::uint32_t slot, const predictor::DurationPrediction& predicted, const policy::Client* view);
  void complete(predictor::Prediction& found, predictor::Identity kernel) const;
  void complete(predictor::Prediction& found, const predictor::Model& model, predictor::Identity kernel) const;
  predictor::Prediction profiled(predictor::Identity kernel) const;

  // tracker_gate.cpp
  std::uint32_t grant_of(std::uint32_t said);
  // tracker_copies.cpp
  void ask_for_copy(const Request& request, std::int64_t t_ns, policy::Policy& policy);
  void copied(const Report& report, std::int64_t t_ns, policy::Policy& policy);

  // For the report and the journal; tracker_notes.cpp.
  void paused(std::int64_t idle_ns);
  void end_gap(std::int64_t t_ns, const policy::Client* view);
  void count_kernel();
  void note_under_way(std::uint64_t launches);
  OthersWork others_work() const;
  void note_gap(std::int64_t t_ns, std::int64_t idle_ns, std::int64_t predicted_ns);
  void note_grant(std::int64_t now_ns);
  void note_drain(std::int64_t t_ns);
  void note_ran(std::size_t count, std::int64_t until_ns); // of the outstanding launches the oldest `count` ended then
  void note_launch(const Report& report, std::int64_t t_ns, std::int64_t duration_ns, const policy::Client* view);
  void note_siblings(std::int64_t duration_ns);
  std::vector<Stats::Held> held_now(std::int64_t now_ns) const;
  void add_work(Stats& stats, std::span<const std::uint64_t> slot_launches) const;

  // tracker_accesses.cpp
  void touched(const Report& report);

  // tracker_times.cpp
  void timed(const Report& report);
  void sample(const Report& report, std::int64_t ns);
  void compare_borrowed(predictor::Identity kernel, const predictor::Context& context, std::int64_t ns);
  // From the profile, over all contexts; nullptr: the kernel is not in it, or its borrowed times were refuted.
  const predictor::Cost* profiled_cost(predictor::Identity kernel) const;
  void gap(const Report& report, std::int64_t ns);
  predictor::Context before(const Report& report) const;
  // How many times of a kernel are known, from its profile and from this run.
  std::uint64_t seen(predictor::Identity kernel, predictor::Statistics predictor::Cost::*what) const;
  predictor::Model* takes(std::uint64_t seen, bool doubtful); // the model for a new time; nullptr: it is not kept
  static bool has_times(const predictor::Model& model, predictor::Identity kernel);
  const predictor::Cost* cost(predictor::Identity kernel) const; // the best that has durations; nullptr: none
  void say_known(std::uint32_t slot);

  predictor::Identity identity(std::uint32_t slot) const { return slot < identities_.size() ? identities_[slot] : 0; }

  ClientId id_;
  bool measure_;
  std::int64_t lease_ns_;
  std::int64_t min_gap_ns_;
  std::int64_t look_ns_;
  ClientPage& page_;
  Traffic& traffic_;
  Insight* insight_ = nullptr;
  bool closed_ = false;
  bool alone_ = true;
  bool undescribed_ = false;
  bool owes_launch_ = false;
  int disturbed_drains_ = 0;  // drains still to come until samples are of work that ran alone
  std::uint64_t kernels_ = 0; // its part of traffic_.kernels
  std::int64_t last_report_ns_; // reports of one client never go back in time
  std::int64_t first_ns_ = 0;
  std::uint64_t launches_ = 0;
  std::uint64_t gap_ended_ = 0; // number of the launch after which the gap has ended already; 0: none
  std::uint64_t under_way_ = 0; // its part of traffic_.under_way
  std::uint64_t complete_ = 0; // launches up to this number are known to be complete
  std::int64_t paused_ns_ = 0; // sum of the idle times at boundaries

  std::uint32_t posted_ = 0;  // waiting request that the policy knows of; 0: none
  std::uint32_t kept_ = 0;    // waiting request that the policy does not know of, during another process's turn; 0: none
  std::uint32_t granted_ = 0; // newest request that has its grant
  struct {
    std::uint64_t until = 0;   // the grant covers launches below this number; 0: only the one that asked
    std::int64_t lease_ns = 0; // when the grant ends, used or not
    bool taken = false;        // a launch was reported since the grant
  } run_;
  std::uint32_t passed_ = 0;
  struct { // the newest copy at its gate
    policy::Engine engine = policy::Engine::compute;
    std::uint32_t request = 0;
    std::uint64_t bytes = 0;
    std::int64_t begin_ns = policy::kNever; // when it began on the device, as reckoned; kNever: not handed to the driver yet
  } copy_;

  std::vector<predictor::Identity> identities_; // by slot
  std::vector<bool> nameless_;                  // by slot: its description did not come in time
  PendingSamples pending_samples_;
  Timed profile_;
  std::unordered_set<predictor::Identity> unconfirmed_; // borrowed kernels that this run has not timed alone yet
  std::unordered_set<predictor::Identity> refuted_;     // borrowed kernels whose durations in this run differ
  Timed measured_;
  predictor::Context launched_context_;
  struct { // the newest prediction: of `kernel`, as the launch after so many `launches`
    bool valid = false;
    predictor::Identity kernel = 0;
    std::uint64_t launches = 0;
    Predicted predicted;
  } next_;
  OwnClock clock_;
  std::int64_t stands_since_ns_ = policy::kNever; // its host is stopped since then; kNever: it is not
  std::int64_t ran_ns_ = policy::kLongAgo;        // its host was last seen to run
  LaunchLog log_;
  std::uint64_t certain_ = 0; // number of launches at which the reckoned progress was last known exactly
  GapAccount gaps_;
  IdleLog idle_;
  Marks marks_;
  forecaster::Forecaster forecaster_;
  std::shared_ptr<Siblings> siblings_;
  struct {
    double begin_ns = -1; // siblings_->work_ns before this client's first launch; negative: it has not launched
    double end_ns = 0;    // and after its latest launch
  } together_;
  std::unique_ptr<predictor::Accesses> accesses_; // made at the shim's first report of accesses
  std::shared_ptr<const predictor::AccessesLearnt> accesses_before_;
  CollectiveKernels collective_kernels_;
  bool awaited_ = false; // collective_kernels_.awaited(), as the policy was last told
  SpanAlone span_alone_;
  std::shared_ptr<predictor::Room> room_;
  predictor::Claim claim_{room_};
  Journal journal_;
  TimeAccount account_;
  HostCores host_cores_;
  WaitBook wait_book_;
  std::array<Ran, Outstanding::kKept> ran_{}; // for take_ran(), not taken yet
  std::size_t ran_count_ = 0;
  std::int64_t ran_until_ns_ = 0;
  Outstanding outstanding_;
  GrantWatch grant_watch_;
  Interference interference_;
  SwitchWatch switch_watch_;
};

} // namespace fikit::tracking
