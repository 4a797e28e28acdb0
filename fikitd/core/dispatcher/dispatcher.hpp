// The thread that schedules one GPU: reads its clients' pages, feeds the policy, carries out what it decides.
//
// All state is behind one mutex, which the thread gives up while it waits, so clients come and go from any thread.
// How it waits: if events have lately been close it spins a little after each (spin.hpp); only then need clients not ring
// (`awake`). Else it sleeps until a doorbell rings, or until it looks by itself: what a GPU writes and what is launched at an
// open gate rings for nobody. While a launch stands at a closed gate it looks when the policy wants to be asked again, and
// often enough before (Look). While none does, house-keeping is all there is: rings are read before they overflow, leases
// renewed, ever more rarely when nothing happens.
// Pages of which nothing can come without a bell (Client::silent) are not read before one rings: an idle node costs next to
// nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "client.hpp"
#include "doorbells.hpp"
#include "policy/policy.hpp"
#include "spin.hpp"

namespace fikit::dispatcher {

// The newest events of a client; see journal.hpp.
struct Story {
  std::vector<JournalEvent> events;
  std::uint64_t lost = 0;
  std::vector<std::string> kernels; // names by slot
};

// A client that has left its dispatcher. What takes long is asked of it here: nobody waits for it.
class Departed {
 public:
  Departed(std::unique_ptr<const Client> client, Stats stats, std::vector<JournalEvent> events);
  const Stats& stats() const { return stats_; }
  Story story() const;
  const Timed& measured() const { return client_->measured(); }
  forecaster::Learnt learnt() const { return client_->learnt(); }

 private:
  std::unique_ptr<const Client> client_;
  Stats stats_;
  std::vector<JournalEvent> events_;
};

class Dispatcher {
 public:
  // policy: a name of policy_names(). marker_interval: clients that others wait for mark one launch in so many, and the
  // unknown ones; 0 = no marks. Throws std::invalid_argument, std::system_error.
  // trace_events: so many of each client's newest events are kept; 0 = none.
  Dispatcher(std::string_view policy, const policy::Options& options, std::int64_t spin_ns, std::uint32_t marker_interval,
             std::size_t trace_events = 0);
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // The descriptors stay the caller's. When it returns, the gates are as the policy wants them.
  // gang: clients with the same number, of this or other dispatchers, run kernels that wait for each other; 0: with none.
  // resume: the page has been in use, with a dispatcher that is no more.
  // Throws std::invalid_argument, std::runtime_error (no room), std::system_error.
  // room: that its journal, its profile and what it teaches have to fit into; what does not is not kept.
  // overlaps: its kernels run beside those of other processes (MPS): it tells nothing of a switch. pid: of its process, 0 = not known.
  // max_slowdown, max_delay_ns: what lower clients may cost it at most, where that is not the options'.
  void add_client(ClientId id, int memfd, int doorbell, int priority, bool measure,
                  std::optional<double> max_slowdown = {}, std::optional<std::int64_t> max_delay_ns = {},
                  std::uint64_t gang = 0, bool resume = false, std::shared_ptr<predictor::Room> room = nullptr,
                  bool overlaps = false, int pid = 0);
  // Its process is gone: before the last questions about it, so that they are answered from all that it finished to report.
  void ended(ClientId id);
  // Opens its gate. Throws std::out_of_range for an unknown client, as do those below.
  Departed remove_client(ClientId id);
  void set_profile(ClientId id, Timed profile, const forecaster::Learnt& before = {});
  std::shared_ptr<predictor::Room> room(ClientId id);
  void describe(ClientId id, std::uint32_t slot, const predictor::Kernel& kernel);
  Stats stats(ClientId id);
  // So many bytes of the client's movable memory are to be on the GPU from now on (struct fikit_moves). Returns the number of this wish, by
  // which its moves() say that it is done; 0: the client's shim moves nothing.
  std::uint32_t set_goal(ClientId id, std::uint64_t bytes);
  tracking::Moves moves(ClientId id);
  // For so long it is not the client's turn, because its memory has to be elsewhere: no launch of it is granted, and its gate is closed. 0: it
  // is its turn from now on. kLongestAway at most at a time: whoever says so and dies holds nobody. Throws std::invalid_argument beyond that,
  // and for a client that measures.
  static constexpr std::int64_t kLongestAwayNs = 10'000'000'000;
  void send_away(ClientId id, std::int64_t for_ns);
  // Does it want its turn?
  struct Standing {
    bool at_gate = false; // a launch or copy of it stands there
    bool busy = false;    // not all that it launched, or was granted, is known to be complete
    std::uint64_t launches = 0;
  };
  Standing standing(ClientId id);
  tracking::Spent spent(ClientId id); // the part of it that says where its time went: it costs little
  Timed measured(ClientId id);
  forecaster::Learnt learnt(ClientId id); // in this run; ask after measured()
  Touched accesses(ClientId id);
  // How long the GPU takes to go to another process, as its clients show: each of the most important ones that can say.
  std::vector<tracking::SwitchMeter::Word> switches();
  // From now on. Its gate opens for a moment, and is closed again if it is to be. Throws std::invalid_argument for an unknown client,
  // one that measures, and a priority that is none.
  void set_priority(ClientId id, int priority);
  // What is known of the GPU now, by reports of clients of this priority and above.
  policy::Device device(int priority = 9);
  // A fikitd of before has measured it so, by reports of clients of this priority and above. It holds until this one has, for
  // clients of this priority and below.
  void remember_switch(std::int64_t switch_ns, std::int64_t spread_ns, std::uint32_t count, int priority);
  std::vector<Idle> idle_moments(ClientId id); // the newest; see tracking/accounting/launch_stats.hpp
  Story journal(ClientId id);
  void stop(); // opens all gates, ends the thread; may be called more than once

 private:
  // All of these with mutex_ held.
  enum class Look : std::uint8_t {
    again,   // at once: spin
    sure,    // then, whatever there is
    for_news // then, if there is anything to read
  };
  struct Wait {
    Look look = Look::again;
    std::int64_t until_ns = 0;
  };
  void run();
  void round();
  void take_reports(std::int64_t now_ns);
  void decide(std::int64_t now_ns);
  void put_down_holds(std::int64_t now_ns);
  void carry_out(const policy::Decision& decision, std::int64_t now_ns);
  void tell_higher(const Client& lower, std::uint32_t kernels); // that it was given them
  void tell_higher_what_ran(Client& lower);
  bool renew_leases(std::int64_t now_ns); // true: they were due
  std::int64_t lease_ns(std::int64_t now_ns) const;
  std::int64_t renewal_ns(std::int64_t now_ns) const; // when leases are due
  std::int64_t keeping_ns(std::int64_t now_ns) const; // between two glances at the pages
  std::int64_t slice_ns(std::int64_t now_ns) const; // between two while a launch stands at a gate
  Wait plan(std::int64_t now_ns) const;
  // dispatcher_turns.cpp
  void see_turns();
  void take_turns(std::int64_t now_ns);
  void begin_turn(Client& client, std::int64_t now_ns);
  void end_turn(Client& client, std::int64_t now_ns);
  void next_turn(const Client& client, std::int64_t now_ns);
  bool call_back_due(std::int64_t now_ns); // those whose time away is over; true: there was one
  std::int64_t next_back_ns() const;       // when the next one's is
  void tell_clients(); // who is alone, and whose progress matters
  void read(Client& client); // in each round, until it is silent
  void skip_silent(std::int64_t now_ns);
  void stay_awake();
  bool fall_asleep();
  bool listen(std::unique_lock<std::mutex>& lock, std::int64_t timeout_ns);
  void sleep(std::unique_lock<std::mutex>& lock, const Wait& wait);
  Client& client(ClientId id);
  std::shared_ptr<Siblings> siblings(std::uint64_t gang, std::int64_t now_ns);
  void read_rest(Client& client);

  policy::Options options_;
  Spin spin_;
  std::uint32_t marker_interval_;
  std::unique_ptr<policy::Policy> policy_;
  Traffic traffic_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Siblings>> siblings_; // by gang: also where none of it is here now
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<Client*> turns_; // measured clients with siblings that are measured
  std::array<Client*, policy::kMaxClients> by_slot_{}; // of the policy's table; nullptr: not in use
  std::vector<Client*> reading_; // whose pages are read in each round; all of those that are not silent, in no order
  struct Reporting {
    std::int64_t t_ns = 0; // of its next report
    Client* client = nullptr;
  };
  std::array<Reporting, policy::kMaxClients> reporting_{}; // room for one round
  std::size_t trace_events_;
  Doorbells doorbells_;

  bool awake_ = false;        // clients of pages that are read need not ring
  bool closed_ = false;       // some gate is
  int lowest_ = 0;            // priority of the lowest client
  bool settled_ = false;      // nothing of what those who wait are told changes before wake_at_ns_ without an event
  std::int64_t wake_at_ns_ = policy::kNever;
  std::int64_t renewed_ns_ = 0;
  std::int64_t given_ns_ = 0; // the leases, then
  std::int64_t moved_ns_ = 0;       // something last happened
  std::int64_t acted_ns_ = 0;       // and had been acted upon
  std::int64_t gate_moved_ns_ = 0;  // something last happened at a closed gate
  policy::Decisions decisions_;

  std::mutex mutex_;
  bool stopping_ = false;
  std::thread thread_;
};

} // namespace fikit::dispatcher
