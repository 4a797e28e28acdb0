// One client of a dispatcher: its page, its ring, and the tracker that turns what these say into events of the policy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "page.hpp"
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

// Which memory a client's kernels touch in the iteration that it is in, by this run and those before; how long its newest pass took (0: not known).
struct Touched {
  predictor::AccessesLearnt learnt;
  std::int64_t latest_ns = 0;
};

class Client {
 public:
  // traffic: of its GPU; outlives it. overlaps: its kernels run beside those of others (MPS). journal: so many of its events are kept. pid: of its process.
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
  Siblings* siblings() const { return tracker_.siblings(); } // on its GPU; nullptr: it belongs to no job
  // All that it launched is known to be complete.
  bool all_over() const { return tracker_.all_complete() && ring_.empty(page_.raw()); }
  std::int64_t quiet_ns(std::int64_t now_ns) const { return now_ns - heard_ns_; } // for so long its page has had nothing new
  bool marks_out() const { return tracker_.marks_out(); }
  bool waiting() const { return tracker_.waiting(); } // a request stands at the gate, without grant
  bool undescribed() const { return undescribed_; } // what it did or asks for is not taken: its kernel's description is due
  bool on_run() const { return tracker_.on_run(); } // launches may follow without asking
  std::uint32_t take_passed() { return tracker_.take_passed(); } // launches that did, since the last call
  std::int64_t first_ns() const { return tracker_.first_ns(); } // when the first of what the last round found happened
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
  void leave(std::int64_t now_ns) { call_back(now_ns), open_gate(now_ns), tracker_.leave(now_ns); }

  // Its page was another dispatcher's: goes on counting, knows nothing of what is under way.
  void resume();

  // Carries out what the policy decided. While it is not its turn the gate stays closed, and is opened afterwards.
  void open_gate(std::int64_t now_ns);
  void close_gate(std::int64_t until_ns);
  // It is not its turn until then, because of its memory: no launch of it is granted, whatever the policy wants. lease_until_ns: of its gate.
  void send_away(std::int64_t until_ns, std::int64_t lease_until_ns);
  // It is. Nothing happens where it was.
  void call_back(std::int64_t now_ns);
  bool at_gate() const { return page_.request().waiting; } // also where no policy hears of it
  std::uint64_t launches() const { return page_.launches(); }
  bool away() const { return away_until_ns_ != 0; }
  std::int64_t away_until_ns() const { return away_until_ns_; } // 0: it is its turn
  void renew_lease(std::int64_t until_ns) { page_.renew_lease(until_ns); }
  // This one, and those that follow it. False: it is a copy.
  bool grant(std::uint32_t request, std::uint32_t launches, std::int64_t now_ns) { return tracker_.grant(request, launches, now_ns); }
  void extend_run(std::uint32_t launches) { tracker_.extend_run(launches); } // so many more of these
  void end_run() { tracker_.end_run(); } // of these, no more
  void end_old_run(std::int64_t now_ns) { tracker_.end_old_run(now_ns); }
  void ask_copies(const policy::CopyEngines& engines) { page_.ask_copies(engines); }
  void held(const policy::WaitReason& hold, std::int64_t now_ns) { tracker_.held(hold, now_ns); }
  // As in the page: what of its memory is to be on the GPU, and what it says of it.
  std::uint32_t set_goal(std::uint64_t bytes) { return page_.set_goal(bytes); }
  tracking::Moves moves() const { return page_.moves(); }
  void set_awake(bool awake) { page_.set_awake(awake); }
  // Ask for a mark behind one launch in so many and behind each unknown one; 0: none.
  void ask_for_marks(std::uint32_t every);
  bool awaited_by(bool any_gate_closed) const { return tracker_.awaited_by(any_gate_closed); }
  void set_alone(bool alone) { tracker_.set_alone(alone); } // on its GPU
  // When granted work of it was on the device, as far as that is known, of what it reported complete since the last call.
  std::span<const Ran> take_ran() { return tracker_.take_ran(); } // valid until the next report
  // That of a lower client.
  void lower_ran(ClientId lower, std::span<const Ran> ran) { tracker_.lower_ran(lower, ran); }
  void kernels_of_other(std::uint32_t count) { tracker_.kernels_of_other(count); }

  void describe(std::uint32_t slot, const predictor::Kernel& kernel) { tracker_.describe(slot, kernel); } // in 1 .. FIKIT_SLOTS - 1
  void set_profile(Timed profile, const forecaster::Learnt& before) { tracker_.set_profile(std::move(profile), before); }
  const std::shared_ptr<predictor::Room>& room() const { return tracker_.room(); } // that all it makes us keep has to fit into; nullptr: any
  policy::Outlook profiled() const { return tracker_.profiled(); }
  const Timed& measured() const { return tracker_.measured(); }
  forecaster::Learnt learnt() const { return tracker_.learnt(); } // where its host waits, what its kernels touch
  Touched accesses() const;
  std::vector<Idle> idle_moments() const { return tracker_.idle_moments(); }
  Stats stats(std::int64_t now_ns) const;
  tracking::Spent spent(std::int64_t now_ns) const { return tracker_.spent(now_ns); }
  const Journal& journal() const { return tracker_.journal(); }
  std::vector<JournalEvent> events(std::int64_t now_ns) const { return tracker_.events(now_ns); }
  std::vector<std::string> kernel_names() const { return tracker_.kernel_names(); } // by slot; "" for slots that mean nothing

 private:
  bool waits_for_description(std::int64_t now_ns); // the next report

  int priority_;
  Page page_;
  Ring ring_;
  tracking::ClientTracker tracker_;
  bool undescribed_ = false;
  std::uint32_t marks_asked_ = 0;
  tracking::Report next_;     // as read from the ring
  bool has_next_ = false;     // and not taken yet
  bool patient_ = true;       // it may wait for a description
  int taken_ = 0;             // in this round
  std::int64_t away_until_ns_ = 0; // not its turn until then; 0: its turn
  bool opens_ = true;              // the policy wants its gate open
  std::int64_t heard_ns_ = 0; // when its page last had something new
};

} // namespace fikit::dispatcher
