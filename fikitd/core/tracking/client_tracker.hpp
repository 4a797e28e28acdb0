// One client of a GPU: turns what its page says into events of the policy, and keeps its books. The dispatcher and the simulator
// both drive it, each with its own pages and its own clock.
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
#include "insight.hpp"
#include "marks.hpp"
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

// How long kernels take, and the gaps behind them.
struct Timed {
  predictor::Model alone;
  predictor::Model beside;   // others on the GPU, which made it longer: for want of better times
  predictor::Model doubtful; // alone, but the shim cannot say it well: so is a kernel's first launch, which loads it
  // Of `alone`, what runs of the same program with other arguments have taught, and no run with these.
  std::unordered_set<predictor::Identity> borrowed;
};

// Whom a tracker follows.
struct Tracked {
  ClientId id = 0;
  int priority = 5;
  bool measure = false;
  bool overlaps = false; // its kernels run beside those of others (MPS): no turns, no switch
  std::shared_ptr<Gang> gang;         // both or none
  std::shared_ptr<Siblings> siblings; // on its GPU; nullptr: it belongs to no job
  std::size_t journal = 0;            // so many of its events are kept
  std::int64_t look_ns = policy::kHorizonNs; // a mark is seen no later after it is reached
  std::shared_ptr<predictor::Room> room; // that all it makes us keep has to fit into; nullptr: any
};

class ClientTracker {
 public:
  // page: of this client. traffic: of its GPU. Both outlive the tracker.
  ClientTracker(Tracked client, ClientPage& page, const policy::Options& options, std::int64_t now_ns, Traffic& traffic);

  ClientId id() const { return id_; }
  bool measuring() const { return measure_; }
  bool closed() const { return closed_; }
  Siblings* siblings() const { return siblings_.get(); }
  // Every launch that it reported, of so many that its page counts, is known to be complete.
  bool all_complete() const { return complete_ >= launches_ && launches_ == page_.launches(); }
  bool marks_out() const { return marks_.any(); }
  bool waiting() const { return posted_ != 0; } // a request stands at the gate, without grant
  bool undescribed() const { return undescribed_; } // that request's kernel is not described: it is not taken yet
  bool on_run() const { return run_.until > page_.launches(); } // launches may follow without asking
  bool has_run() const { return run_.until != 0; } // the same, or did until its lease is over
  bool owes_launch() const { return owes_launch_; } // on the newest grant: it has not reported it yet
  bool gang_news(std::int64_t now_ns) { return collective_kernels_.awaited(now_ns) != awaited_; }
  bool is_news(const Request& request) const {
    return closed_ && request.waiting && request.sequence != posted_ && request.sequence != granted_;
  }
  std::uint32_t take_passed() { return std::exchange(passed_, 0U); } // launches that did, since the last call
  std::int64_t first_ns() const { return first_ns_; } // when the first of what this round found happened

  // A round: the marks first, then the reports, then marks, gang and request once more. Each says whether there was anything.
  void begin_round(std::int64_t now_ns) { first_ns_ = now_ns; }
  bool look_at_marks(std::int64_t now_ns, policy::Policy& policy);
  std::int64_t time_of(const Report& report, std::int64_t now_ns) const; // when it happened, as far as it can be
  void take(const Report& report, std::int64_t now_ns, policy::Policy& policy);
  void lost_reports(std::uint64_t launches, policy::Policy& policy); // so many launches there are by now
  bool look_at_gang(std::int64_t now_ns, policy::Policy& policy);
  // patient: a new kernel's description may be waited for.
  bool look_at_request(const Request& request, bool patient, std::int64_t now_ns, policy::Policy& policy);
  // The same while it is not its turn: the policy does not hear of the launch that stands there, which waits for `hold`. A copy is looked at
  // as ever.
  bool keep_request(const Request& request, const policy::WaitReason& hold, bool patient, std::int64_t now_ns, policy::Policy& policy);
  // Is the description of a new slot that was used at t_ns probably on its way?
  bool describes_soon(std::uint32_t slot, std::int64_t t_ns, std::int64_t now_ns);

  // It is in no dispatcher any more, though it may still be asked what it has learnt.
  void leave(std::int64_t now_ns) { collective_kernels_.leave(now_ns), switch_watch_.leave(now_ns), note_under_way(0); }
  // Its page was another's: so many launches there were before, of which nothing is known.
  void resume(std::uint64_t launches);

  // What the policy decided.
  void gate_opened(std::int64_t now_ns);
  void gate_closed() { closed_ = true; }
  // This one, and those that follow it. False: it is a copy.
  bool grant(std::uint32_t request, std::uint32_t launches, std::int64_t now_ns);
  void extend_run(std::uint32_t launches); // so many more of these
  void end_run(); // of these, no more
  void end_old_run(std::int64_t now_ns) {
    if (run_.until != 0 && now_ns >= run_.lease_ns) end_run();
  }
  void held(const policy::WaitReason& hold, std::int64_t now_ns) { wait_book_.decided(hold, now_ns); }
  // Are marks behind its work wanted? Somebody waits for it while its gate is open and another one is not.
  bool awaited_by(bool any_gate_closed) const { return any_gate_closed && !closed_ && !measure_; }
  void set_alone(bool alone); // on its GPU
  void set_priority(int priority) { switch_watch_.set_level(priority); }
  // When granted work of it was on the device, as far as that is known, of what it reported complete since the last call.
  std::span<const Ran> take_ran(); // valid until the next report
  // That of a lower client.
  void lower_ran(ClientId lower, std::span<const Ran> ran);
  void kernels_of_other(std::uint32_t count) { gaps_.kernels_of_other(count); }

  void describe(std::uint32_t slot, const predictor::Kernel& kernel); // slot in 1 .. FIKIT_SLOTS - 1
  void set_profile(Timed profile, const forecaster::Learnt& before);
  forecaster::Learnt learnt() const; // in this run
  const predictor::Accesses* accesses() const { return accesses_.get(); } // nullptr: its shim says nothing of what its kernels touch
  void set_forecaster(forecaster::Forecaster forecaster) { forecaster_ = std::move(forecaster); }
  void set_insight(Insight* insight) { insight_ = insight; } // outlives the tracker; nullptr: none
  const std::shared_ptr<predictor::Room>& room() const { return room_; }
  policy::Outlook profiled() const { return forecaster_.profiled(); }
  const Timed& measured() const { return measured_; }
  const forecaster::Forecaster& forecaster() const { return forecaster_; }
  std::vector<Idle> idle_moments() const { return idle_.items(); }
  // slot_launches: by slot, as its page counts them.
  Stats stats(const Counters& counters, std::span<const std::uint64_t> slot_launches, std::int64_t now_ns) const;
  Spent spent(std::int64_t now_ns) const { return account_.spent(now_ns, others_work()); }
  const Journal& journal() const { return journal_; }
  std::vector<JournalEvent> events(std::int64_t now_ns) const; // the journal's, and the wait that goes on
  std::vector<std::string> kernel_names() const; // by slot; "" for slots that mean nothing

 private:
  struct Drain {
    std::uint64_t launches = 0; // so many are complete
    std::int64_t t_ns = 0;
    std::int64_t since_ns = policy::kLongAgo; // when it was not so
    bool waited = true;                       // the host knows it
    std::int64_t began_ns = policy::kLongAgo; // since when it has waited
  };
  void launch(const Report& report, std::int64_t t_ns, policy::Policy& policy);
  void drained(const Drain& drain, policy::Policy& policy);
  Moment ended(const Drain& drain) const;
  void put_mark(const Report& report, std::int64_t t_ns, const policy::Policy& policy);
  // At t_ns; at since_ns it was not.
  void grant_done(std::uint32_t request, std::int64_t since_ns, std::int64_t t_ns, policy::Policy& policy);
  void tell(policy::Event& event, policy::Policy& policy);
  // Is it learnt where its host waits? For a policy that asks, and for the profile of a run that is measured.
  bool foresees(const policy::Policy& policy) const { return measure_ || policy.looks_ahead(); }

  // tracker_prediction.cpp
  struct Predicted {
    predictor::Prediction profiled;  // by its profile alone
    predictor::Prediction alone;     // and by what this run has taught while nobody else was on the GPU
    predictor::Prediction completed; // and by what it has taught otherwise
  };
  const Predicted& predict(predictor::Identity kernel);
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
  void note_ran(std::size_t count, std::int64_t until_ns); // of what is outstanding
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
  // By its profile, over all contexts; nullptr: it says nothing, or what it says was borrowed and is not so.
  const predictor::Cost* profiled_cost(predictor::Identity kernel) const;
  void gap(const Report& report, std::int64_t ns);
  predictor::Context before(const Report& report) const;
  // How many times of a kernel are known, from its profile and from this run.
  std::uint64_t seen(predictor::Identity kernel, predictor::Statistics predictor::Cost::*what) const;
  predictor::Model* takes(std::uint64_t seen, bool doubtful); // into; nullptr: nowhere
  static bool has_times(const predictor::Model& model, predictor::Identity kernel);
  const predictor::Cost* cost(predictor::Identity kernel) const; // with times of how long it takes; nullptr: there are none
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
  int disturbed_drains_ = 0;  // reports of drains until what is sampled has run alone
  std::uint64_t kernels_ = 0; // its part of the traffic
  std::int64_t last_report_ns_; // reports of one client never go back in time
  std::int64_t first_ns_ = 0;
  std::uint64_t launches_ = 0;
  std::uint64_t gap_ended_ = 0; // the gap after this launch has been ended; 0: before the first one there is none
  std::uint64_t under_way_ = 0; // its part of the traffic's
  std::uint64_t complete_ = 0; // all launches up to this one, as far as is known
  std::int64_t paused_ns_ = 0; // sum of the idle times at boundaries

  std::uint32_t posted_ = 0;  // request the policy knows to be waiting; 0 = none
  std::uint32_t kept_ = 0;    // request that it does not know of, because it is not this client's turn; 0 = none
  std::uint32_t granted_ = 0; // newest request that has its grant
  struct {
    std::uint64_t until = 0;   // launches below this number go without asking; 0: none
    std::int64_t lease_ns = 0; // until then: what a host has not used by now it had not been expected to
    bool taken = false;        // a launch was reported since the grant
  } run_;
  std::uint32_t passed_ = 0;
  struct { // the newest at its gate
    policy::Engine engine = policy::Engine::compute;
    std::uint32_t request = 0;
    std::uint64_t bytes = 0;
    std::int64_t begin_ns = policy::kNever; // on the device, as far as is reckoned; kNever: it has not been handed over
  } copy_;

  std::vector<predictor::Identity> identities_; // by slot
  std::vector<bool> nameless_;                  // by slot: was used and not described in time
  PendingSamples pending_samples_;
  Timed profile_;
  std::unordered_set<predictor::Identity> unconfirmed_; // borrowed, and not timed alone in this run yet
  std::unordered_set<predictor::Identity> refuted_;     // borrowed, and in this run they take another time
  Timed measured_;
  predictor::Context launched_context_;
  struct { // the newest prediction, of the launch that comes after so many
    bool valid = false;
    predictor::Identity kernel = 0;
    std::uint64_t launches = 0;
    Predicted predicted;
  } next_;
  LaunchLog log_;
  std::uint64_t certain_ = 0; // the reckoning began anew, or was last corrected, after this many launches
  GapAccount gaps_;
  IdleLog idle_;
  Marks marks_;
  forecaster::Forecaster forecaster_;
  std::shared_ptr<Siblings> siblings_;
  struct {
    double begin_ns = -1; // of its siblings' work and its own, as it stood before its first launch; negative: there was none
    double end_ns = 0;    // and after its latest
  } together_;
  std::unique_ptr<predictor::Accesses> accesses_; // since its shim said something
  predictor::AccessesLearnt accesses_before_;
  CollectiveKernels collective_kernels_;
  bool awaited_ = false; // as the policy knows it
  SoloAccount solo_;
  std::shared_ptr<predictor::Room> room_;
  predictor::Claim claim_{room_};
  Journal journal_;
  TimeAccount account_;
  HostCores host_cores_;
  WaitBook wait_book_;
  std::array<Ran, Outstanding::kKept> ran_{}; // that others have not been told of
  std::size_t ran_count_ = 0;
  std::int64_t ran_until_ns_ = 0;
  Outstanding outstanding_;
  Interference interference_;
  SwitchWatch switch_watch_;
};

} // namespace fikit::tracking
