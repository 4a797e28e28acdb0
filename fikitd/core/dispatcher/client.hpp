// One client of a dispatcher: turns what its page says into events of the policy, and keeps its books.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "account.hpp"
#include "exclusives.hpp"
#include "foresight/foresight.hpp"
#include "holds.hpp"
#include "journal.hpp"
#include "marks.hpp"
#include "nameless.hpp"
#include "page.hpp"
#include "policy/policy.hpp"
#include "predictor/model.hpp"
#include "ring.hpp"
#include "siblings.hpp"
#include "stood.hpp"

namespace fikit::dispatcher {

using policy::ClientId;

// Figures of the report; see docs/design/contracts.md, "Report records". Times in ns.
struct Stats {
  std::uint64_t kernels = 0;
  std::optional<double> gpu_time_ns; // nothing: no profile or measurement knows the kernels
  std::uint64_t untimed = 0;         // launches of kernels that nothing has timed
  std::uint64_t beside = 0;          // launches of kernels that were timed only beside others, whose work is in these times
  std::uint64_t unfinished = 0;      // launches that are not known to be complete
  std::int64_t span_ns = 0;          // first launch to last known drain, without boundaries
  std::int64_t under_way_ns = 0;     // the same up to now, where something is not known to be complete: it used the GPU for no longer
  std::optional<double> solo_ns;
  std::uint64_t wait_count = 0;
  std::uint64_t wait_total_ns = 0;
  double wait_p99_ns = 0;
  std::uint64_t gaps_offered = 0;
  std::uint64_t gaps_filled = 0;
  std::uint64_t others_kernels = 0;
  std::int64_t predicted_gap_ns = 0; // sums over offered gaps
  std::int64_t actual_gap_ns = 0;
  double gap_error_p50_ns = 0;
  double gap_error_p90_ns = 0;
  std::uint64_t expired = 0;
  std::uint64_t drifted = 0; // kernels that came to take 30 % more or less than their profile says
  struct Held {
    HoldSum sum;
    std::string kernel;                // its own; "" where it does not matter, or is not known
    std::optional<double> p90_ns;      // of that kernel
  };
  std::vector<Held> held; // what its waits are put down to, in no order
  std::int64_t heard_ns = 0; // as Client has it: one and the same for all whose news one round found
};

// What all clients of a GPU together sent to it.
struct Traffic {
  std::uint64_t kernels = 0;
};

// How long kernels take, and the gaps behind them.
struct Timed {
  predictor::Model alone;
  predictor::Model beside; // others on the GPU, which made it longer: for want of better times
};

class Client {
 public:
  // traffic: of its GPU; outlives it. journal: so many of its events are kept.
  Client(ClientId id, int memfd, int priority, bool measure, const policy::Options& options, std::int64_t now_ns,
         Traffic& traffic, std::shared_ptr<Gang> gang = nullptr, std::shared_ptr<Siblings> siblings = nullptr, std::size_t journal = 0,
         std::shared_ptr<predictor::Room> room = nullptr);

  ClientId id() const { return id_; }
  int priority() const { return priority_; }
  bool measuring() const { return measure_; }
  bool closed() const { return closed_; }
  Siblings* siblings() const { return siblings_.get(); } // on its GPU; nullptr: it belongs to no job
  // All that it launched is known to be complete.
  bool all_over() const { return complete_ >= launches_ && launches_ == page_.launches() && ring_.empty(page_.raw()); }
  std::int64_t quiet_ns(std::int64_t now_ns) const { return now_ns - heard_ns_; } // for so long its page has had nothing new
  bool marks_out() const { return marks_.any(); }
  bool waiting() const { return posted_ != 0; } // a request stands at the gate, without grant
  bool undescribed() const { return undescribed_; } // what it did or asks for is not taken: its kernel's description is due
  bool on_run() const { return run_.until > page_.launches(); } // launches may follow without asking
  std::uint32_t take_passed() { return std::exchange(passed_, 0U); } // launches that did, since the last call
  std::int64_t first_ns() const { return first_ns_; } // when the first of what the last round found happened
  bool cannot_wait() const; // a new request, or a ring about to overflow
  bool has_news();    // a round would find something for which no doorbell is rung
  // Its page says nothing new before it rings: its gate is closed, and nothing of what it was allowed to do, or was doing when
  // the gate closed, is still to be reported.
  bool silent(std::int64_t now_ns);
  void heard(std::int64_t now_ns) { heard_ns_ = now_ns; } // it rang, or may begin to say something

  // A round: what is new on the page is applied to the policy. Each says whether there was anything.
  bool begin_round(std::int64_t now_ns, policy::Policy& policy);
  // When its next report says that it happened; kNever: there is none, or enough was read in this round. In between, the
  // reports of others are taken: what happened on a GPU is applied in the order of its times.
  std::int64_t next_report_ns(std::int64_t now_ns);
  void take_report(std::int64_t now_ns, policy::Policy& policy);
  bool end_round(std::int64_t now_ns, policy::Policy& policy);
  // All of it, without a look at others.
  bool poll(std::int64_t now_ns, policy::Policy& policy);

  // Its process is gone: what that did not finish to report is not waited for.
  void ended() { ring_.writer_gone(); }

  // It is in no dispatcher any more, though it may still be asked what it has learnt.
  void leave(std::int64_t now_ns) { open_gate(now_ns), exclusives_.leave(now_ns); }

  // Its page was another dispatcher's: goes on counting, knows nothing of what is under way.
  void resume();

  // Carries out what the policy decided.
  void open_gate(std::int64_t now_ns);
  void close_gate(std::int64_t until_ns);
  void renew_lease(std::int64_t until_ns) { page_.renew_lease(until_ns); }
  // This one, and those that follow it. False: it is a copy.
  bool grant(std::uint32_t request, std::uint32_t launches, std::int64_t now_ns);
  void extend_run(std::uint32_t launches); // so many more of these
  void end_run(); // of these, no more
  void end_old_run(std::int64_t now_ns) {
    if (run_.until != 0 && now_ns >= run_.lease_ns) end_run();
  }
  void ask_copies(const policy::CopyEngines& engines) { page_.ask_copies(engines); }
  void held(const policy::Hold& hold, std::int64_t now_ns) { holds_.decided(hold, now_ns); }
  void set_awake(bool awake) { page_.set_awake(awake); }
  // Ask for a mark behind one launch in so many and behind each unknown one; 0: none.
  void ask_for_marks(std::uint32_t every);
  void set_alone(bool alone); // on its GPU
  // When granted work of it was on the device, as far as that is known, of what it reported complete since the last call.
  std::span<const Ran> take_ran(); // valid until the next report
  // That of a lower client.
  void lower_ran(ClientId lower, std::span<const Ran> ran);
  void kernels_of_other(std::uint32_t count) { gaps_.kernels_of_other(count); }

  void describe(std::uint32_t slot, const predictor::Kernel& kernel); // slot in 1 .. FIKIT_SLOTS - 1
  void set_profile(Timed profile, const foresight::Learnt& before);
  const std::shared_ptr<predictor::Room>& room() const { return room_; } // that all it makes us keep has to fit into; nullptr: any
  policy::Outlook profiled() const { return foresight_.profiled(); }
  const Timed& measured() const { return measured_; }
  foresight::Learnt learnt() const { return foresight_.learnt(); } // where its host waits
  std::vector<Idle> idle_moments() const { return idle_.items(); }
  Stats stats(std::int64_t now_ns) const;
  const Journal& journal() const { return journal_; }
  std::vector<JournalEvent> events(std::int64_t now_ns) const; // the journal's, and the wait that goes on
  std::vector<std::string> kernel_names() const; // by slot; "" for slots that mean nothing

 private:
  std::int64_t time_of(const Report& report, std::int64_t now_ns) const; // as far as it can be
  // Is the description of a new slot that was used at t_ns probably on its way?
  bool waits_for_description(std::int64_t now_ns); // the next report
  bool describes_soon(std::uint32_t slot, std::int64_t t_ns, std::int64_t now_ns);
  void take(const Report& report, std::int64_t now_ns, policy::Policy& policy);
  void launch(const Report& report, std::int64_t t_ns, policy::Policy& policy);
  void paused(std::int64_t idle_ns);
  void end_gap(std::int64_t t_ns, const policy::Client* view);
  // client_copies.cpp
  void ask_for_copy(const Page::Request& request, std::int64_t t_ns, policy::Policy& policy);
  void copied(const Report& report, std::int64_t t_ns, policy::Policy& policy);
  // At t_ns; at since_ns it was not.
  void grant_done(std::uint32_t request, std::int64_t since_ns, std::int64_t t_ns, policy::Policy& policy);
  // For the report and the journal; client_notes.cpp.
  void note_gap(std::int64_t t_ns, std::int64_t idle_ns, std::int64_t predicted_ns);
  void note_grant(std::int64_t now_ns);
  void note_drain(std::int64_t t_ns);
  void note_ran(std::size_t count, std::int64_t until_ns); // of what is outstanding
  void note_launch(const Report& report, std::int64_t t_ns, std::int64_t duration_ns, const policy::Client* view);
  std::vector<Stats::Held> held_now(std::int64_t now_ns) const;
  void timed(const Report& report);
  void sample(const Report& report, std::int64_t ns);
  void gap(const Report& report, std::int64_t ns);
  struct Drain {
    std::uint64_t launches = 0; // so many are complete
    std::int64_t t_ns = 0;
    std::int64_t since_ns = policy::kLongAgo; // when it was not so
    bool waited = true;                       // the host knows it
    std::int64_t began_ns = policy::kLongAgo; // since when it has waited
  };
  void drained(const Drain& drain, policy::Policy& policy);
  bool look_at_marks(std::int64_t now_ns, policy::Policy& policy);
  predictor::Prediction predict(predictor::Identity kernel) const;
  // Is it learnt where its host waits? For a policy that asks, and for the profile of a run that is measured.
  bool foresees(const policy::Policy& policy) const { return measure_ || policy.looks_ahead(); }
  void complete(predictor::Prediction& found, predictor::Identity kernel) const;
  predictor::Context before(const Report& report) const;
  // How many times of a kernel are known, from its profile and from this run.
  std::uint64_t seen(predictor::Identity kernel, predictor::Statistics predictor::Cost::*what) const;
  predictor::Model* takes(std::uint64_t seen); // into; nullptr: nowhere
  const predictor::Cost* cost(predictor::Identity kernel) const; // with times of how long it takes; nullptr: there are none
  void say_known(std::uint32_t slot);
  void count_kernel();
  void add_work(Stats& stats) const;
  bool look_at_request(std::int64_t now_ns, policy::Policy& policy);
  std::uint32_t grant_of(std::uint32_t said);
  bool look_at_gang(std::int64_t now_ns, policy::Policy& policy);
  predictor::Identity identity(std::uint32_t slot) const { return slot < identities_.size() ? identities_[slot] : 0; }

  ClientId id_;
  int priority_;
  bool measure_;
  std::int64_t lease_ns_;
  std::int64_t epsilon_ns_;
  bool closed_ = false;
  bool alone_ = true;
  bool undescribed_ = false;
  bool owes_launch_ = false; // on the newest grant: it has not reported it yet
  int disturbed_drains_ = 0; // reports of drains until what is sampled has run alone
  std::uint32_t marks_asked_ = 0;
  Traffic& traffic_;
  std::uint64_t kernels_ = 0; // its part of the traffic
  Page page_;
  Ring ring_;
  Report next_;               // as read from the ring
  bool has_next_ = false;     // and not taken yet
  bool patient_ = true;       // it may wait for a description
  int taken_ = 0;             // in this round
  std::int64_t last_report_ns_; // reports of one client never go back in time
  std::int64_t first_ns_ = 0;
  std::uint64_t launches_ = 0;
  std::uint64_t complete_ = 0; // all launches up to this one, as far as is known
  std::int64_t paused_ns_ = 0; // sum of the idle times at boundaries

  std::uint32_t posted_ = 0;  // request the policy knows to be waiting; 0 = none
  std::uint32_t granted_ = 0; // newest request that has its grant
  std::int64_t heard_ns_ = 0; // when its page last had something new
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
  Nameless timed_nameless_;
  Timed profile_;
  Timed measured_;
  predictor::Context launched_context_;
  LaunchLog log_;
  std::uint64_t certain_ = 0; // the reckoning began anew, or was last corrected, after this many launches
  GapAccount gaps_;
  IdleLog idle_;
  Marks marks_;
  foresight::Foresight foresight_;
  std::shared_ptr<Siblings> siblings_;
  struct {
    double begin_ns = -1; // of its siblings' work and its own, as it stood before its first launch; negative: there was none
    double end_ns = 0;    // and after its latest
  } together_;
  Exclusives exclusives_;
  bool awaited_ = false; // as the policy knows it
  SoloAccount solo_;
  std::shared_ptr<predictor::Room> room_;
  predictor::Claim claim_{room_};
  Journal journal_;
  Holds holds_;
  std::array<Ran, Outstanding::kKept> ran_{}; // that others have not been told of
  std::size_t ran_count_ = 0;
  std::int64_t ran_until_ns_ = 0;
  Outstanding outstanding_;
  Stood stood_;
};

} // namespace fikit::dispatcher
