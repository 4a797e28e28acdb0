// One client of a dispatcher: its page, its ring, and the tracker that turns the reports there into events of the policy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "page.hpp"
#include "plan_words.hpp"
#include "ring.hpp"
#include "tracking/client_tracker.hpp"

namespace fikit::dispatcher {

using policy::ClientId;
using tracking::Gang;
using tracking::Idle;
using tracking::Journal;
using tracking::JournalEvent;
using tracking::JournalKind;
using tracking::kJournalKinds;
using tracking::Ran;
using tracking::Siblings;
using tracking::Stats;
using tracking::Timed;
using tracking::Traffic;

// Which memory a client's kernels touch in an iteration, learnt in this run and earlier ones; latest_ns: how long its newest pass took (0: not
// known).
struct Touched {
  predictor::AccessesLearnt learnt;
  std::int64_t latest_ns = 0;
};

// The same while it is read, part by part.
struct Touching {
  predictor::Accesses::Reading reading;
  std::int64_t latest_ns = 0;
};

// The iteration that a client is going through now.
struct InPass {
  std::uint64_t path = 0;         // hash of its launches
  std::size_t launches = 0;
  std::uint64_t first_launch = 0; // launch_seq of the first launch of the pass that runs now, or begins next
  std::int64_t latest_ns = 0;     // how long its newest pass took; 0: not known
};

class Client {
 public:
  // traffic: its GPU's; outlives the client. overlaps: its kernels run beside those of others (MPS). journal: how many of its newest events are
  // kept. pid: its process.
  Client(ClientId id, int memfd, int priority, bool measure, const policy::Options& options, std::int64_t now_ns,
         Traffic& traffic, std::shared_ptr<Gang> gang = nullptr, std::shared_ptr<Siblings> siblings = nullptr, std::size_t journal = 0,
         std::shared_ptr<predictor::Room> room = nullptr, bool overlaps = false, int pid = 0);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  ClientId id() const { return tracker_.id(); }
  int priority() const { return priority_; }
  void set_priority(int priority) { priority_ = priority, tracker_.set_priority(priority); }
  bool measuring() const { return tracker_.measuring(); }
  bool closed() const { return tracker_.closed(); }
  Siblings* siblings() const { return tracker_.siblings(); } // the job's processes on this GPU; nullptr: no job
  // All its launches are known to be complete.
  bool all_over() const { return tracker_.all_complete() && ring_.empty(page_.raw()); }
  std::int64_t quiet_ns(std::int64_t now_ns) const { return now_ns - heard_ns_; } // since its page last had something new
  bool marks_out() const { return tracker_.marks_out(); }
  bool waiting() const { return tracker_.waiting(); } // a request stands at the gate, without grant
  bool undescribed() const { return undescribed_; } // its next report or request is left there until its kernel's description comes
  bool on_run() const { return tracker_.on_run(); } // its newest grant covers launches still to come
  std::uint32_t take_passed() { return tracker_.take_passed(); } // such launches since the last call
  std::int64_t first_ns() const { return tracker_.first_ns(); } // the earliest time of what the last round found
  bool cannot_wait() const; // a new request, or a ring about to overflow
  bool has_news();    // the page has something new for which the client rings no doorbell
  // Nothing new can come on its page before it rings: its gate is closed, and all that was granted, or was going on when the gate closed,
  // has been reported.
  bool silent(std::int64_t now_ns);
  void heard(std::int64_t now_ns) { heard_ns_ = now_ns; } // it rang, or may report something from now on

  // A round applies what is new on the page to the policy. The functions return whether they found something new.
  bool begin_round(std::int64_t now_ns, policy::Policy& policy);
  // The time of its next report; kNever: there is none, or enough was read in this round. The dispatcher takes the reports of all clients in
  // the order of their times.
  std::int64_t next_report_ns(std::int64_t now_ns);
  void take_report(std::int64_t now_ns, policy::Policy& policy);
  bool end_round(std::int64_t now_ns, policy::Policy& policy);
  // A whole round for this client alone.
  bool poll(std::int64_t now_ns, policy::Policy& policy);

  // Its process is gone: unfinished reports are not waited for any longer.
  void ended() { ring_.writer_gone(); }

  // The client leaves its dispatcher. What was learnt of it may still be asked for.
  void leave(std::int64_t now_ns) { call_back(now_ns), open_gate(now_ns), tracker_.leave(now_ns); }

  // Goes on with a page that a previous fikitd made: counters go on, nothing is known of the work on the device.
  void resume();

  // Carries out the policy's decisions. While the client is away, the gate stays closed and is opened afterwards.
  void open_gate(std::int64_t now_ns);
  void close_gate(std::int64_t until_ns);
  // Because its memory is to be off the GPU, no launch of the client is granted until until_ns, whatever the policy decides. lease_until_ns:
  // the lease of its gate.
  void send_away(std::int64_t until_ns, std::int64_t lease_until_ns);
  // Ends that; nothing happens if the client is not away.
  void call_back(std::int64_t now_ns);
  bool at_gate() const { return page_.request().waiting; } // also while it is away and the policy does not know of it
  std::uint64_t launches() const { return page_.launches(); }
  bool away() const { return away_until_ns_ != 0; }
  std::int64_t away_until_ns() const { return away_until_ns_; } // 0: it is not away
  void renew_lease(std::int64_t until_ns) { page_.renew_lease(until_ns); }
  // Grants the request and the launches after it, `launches` in all. False: the request is a copy.
  bool grant(std::uint32_t request, std::uint32_t launches, std::int64_t now_ns) { return tracker_.grant(request, launches, now_ns); }
  void extend_run(std::uint32_t launches) { tracker_.extend_run(launches); } // the newest grant covers so many more
  void end_run() { tracker_.end_run(); } // the newest grant covers no further launch
  void end_old_run(std::int64_t now_ns) { tracker_.end_old_run(now_ns); }
  void ask_copies(const policy::CopyEngines& engines) { page_.ask_copies(engines); }
  void held(const policy::WaitReason& hold, std::int64_t now_ns) { tracker_.held(hold, now_ns); }
  // The goal for its memory, and its own word on it, as on the page (PageWords).
  std::uint32_t set_goal(std::uint64_t bytes) { return page_.set_goal(bytes); }
  tracking::Moves moves() const { return page_.moves(); }
  void set_awake(bool awake) { page_.set_awake(awake); }
  // Asks the shim for a mark behind one launch in `every` and behind each launch of unknown length; 0: no marks.
  void ask_for_marks(std::uint32_t every);
  bool awaited_by(bool any_gate_closed) const { return tracker_.awaited_by(any_gate_closed); }
  void set_alone(bool alone) { tracker_.set_alone(alone); } // no other client uses its GPU
  // For its granted launches that became complete since the last call: when each ran, as reckoned.
  std::span<const Ran> take_ran() { return tracker_.take_ran(); } // valid until the next report
  // take_ran() of a lower client.
  void lower_ran(ClientId lower, std::span<const Ran> ran) { tracker_.lower_ran(lower, ran); }
  void kernels_of_other(std::uint32_t count) { tracker_.kernels_of_other(count); }

  // Looks, at most once in look_ns and only where nothing has been reported for so long, whether its host is stopped. Whether that changed.
  bool see_host(std::int64_t look_ns, std::int64_t now_ns, policy::Policy& policy);
  bool stands() const { return tracker_.stands(); }

  void describe(std::uint32_t slot, const predictor::Kernel& kernel) { tracker_.describe(slot, kernel); } // in 1 .. FIKIT_SLOTS - 1
  void set_profile(Timed profile, const forecaster::Learnt& before, std::shared_ptr<const predictor::AccessesLearnt> accesses) {
    tracker_.set_profile(std::move(profile), before, std::move(accesses));
  }
  const std::shared_ptr<predictor::Room>& room() const { return tracker_.room(); } // bound of the memory that fikitd keeps for it; nullptr: none
  policy::Outlook profiled() const { return tracker_.profiled(); }
  const Timed& measured() const { return tracker_.measured(); }
  forecaster::Learnt learnt() const { return tracker_.learnt(); } // in this run: where its host waits, which memory its kernels touch
  bool read_accesses(Touching& into, std::size_t launches) const; // so many more; whether it is complete
  std::optional<InPass> iteration() const;
  PlanWords& plan() { return page_.plan(); }
  std::vector<Idle> idle_moments() const { return tracker_.idle_moments(); }
  Stats stats(std::int64_t now_ns) const;
  tracking::Spent spent(std::int64_t now_ns) const { return tracker_.spent(now_ns); }
  const Journal& journal() const { return tracker_.journal(); }
  std::vector<JournalEvent> events(std::int64_t now_ns) const { return tracker_.events(now_ns); }
  std::vector<std::string> kernel_names() const { return tracker_.kernel_names(); } // by slot; "" for slots without a kernel

 private:
  bool waits_for_description(std::int64_t now_ns); // does the next report?

  int priority_;
  Page page_;
  Ring ring_;
  tracking::ClientTracker tracker_;
  bool undescribed_ = false;
  std::uint32_t marks_asked_ = 0;
  tracking::Report next_;     // as read from the ring
  bool has_next_ = false;     // next_ is not taken yet
  bool patient_ = true;       // reports may wait for a kernel's description
  int taken_ = 0;             // reports in this round
  std::int64_t away_until_ns_ = 0; // 0: not away
  bool opens_ = true;              // the policy wants its gate open
  std::int64_t heard_ns_ = 0; // when its page last had something new
  int pid_ = 0;
  std::int64_t looked_ns_ = 0; // at its host
};

} // namespace fikit::dispatcher
