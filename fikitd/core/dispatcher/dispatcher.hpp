// The thread that schedules one GPU: it reads its clients' pages, gives the policy their events, and carries out its decisions.
//
// One mutex protects all state. The thread releases it while it waits, so that other threads can add and remove clients.
// How it waits: where events have lately followed each other closely, it spins a little after each (spin.hpp); only then do clients not
// ring (`awake`). Else it sleeps until a doorbell rings or until its next look at the pages, because neither the GPU's marks nor launches at
// an open gate ring. While a launch waits at a closed gate, it looks when the policy wants to be asked again, and several times before
// (Look). While none waits, it only reads rings before they overflow and renews leases, the more rarely the longer nothing happens.
// Pages on which nothing new can come without a doorbell (Client::silent) are not read before it rings. So an idle node costs hardly any
// processor time.
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

// A client that has left its dispatcher. Questions that take long are asked here, where they hold no lock.
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
  // policy: a name of policy_names(). marker_interval: a client that others wait for puts a mark behind one launch in so many, and behind each
  // launch of unknown length; 0 = no marks. trace_events: how many of each client's newest events are kept; 0 = none.
  // Throws std::invalid_argument, std::system_error.
  Dispatcher(std::string_view policy, const policy::Options& options, std::int64_t spin_ns, std::uint32_t marker_interval,
             std::size_t trace_events = 0);
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // Adds a client; when it returns, the gates are as the policy wants them. The descriptors stay the caller's.
  // gang: clients with the same number, of this or other dispatchers, are ranks of one job; 0: none. user: whose job it is; users of one
  // priority have equal shares, then the jobs of a user.
  // resume: the page was in use with a previous fikitd.
  // room: bounds the memory of its journal, its profile and what is learnt of it; what does not fit is not kept.
  // overlaps: its kernels run beside those of other processes (MPS), so that it measures no switch. pid: its process, 0 = not known.
  // max_slowdown, max_delay_ns: its own bounds, in place of the options'.
  // Throws std::invalid_argument, std::runtime_error (too many clients), std::system_error.
  void add_client(ClientId id, int memfd, int doorbell, int priority, bool measure,
                  std::optional<double> max_slowdown = {}, std::optional<std::int64_t> max_delay_ns = {},
                  std::uint64_t gang = 0, bool resume = false, std::shared_ptr<predictor::Room> room = nullptr,
                  bool overlaps = false, int pid = 0, std::uint64_t user = 0);
  // Its process is gone. Called before stats() and the like, so that these have every report that it finished.
  void ended(ClientId id);
  // Opens its gate. This function and all below throw std::out_of_range for an unknown client.
  Departed remove_client(ClientId id);
  void set_profile(ClientId id, Timed profile, const forecaster::Learnt& before = {});
  std::shared_ptr<predictor::Room> room(ClientId id);
  void describe(ClientId id, std::uint32_t slot, const predictor::Kernel& kernel);
  Stats stats(ClientId id);
  // Tells the client how many bytes of its movable memory are to be on the GPU (struct fikit_moves). Returns the number of this goal, which
  // moves().reached has once it is done; 0: the client's shim moves nothing.
  std::uint32_t set_goal(ClientId id, std::uint64_t bytes);
  tracking::Moves moves(ClientId id);
  // Because its memory is to be off the GPU, the client's gate is closed and no launch is granted for so long; 0: ends that. At most
  // kLongestAwayNs at a time, so that a caller that dies holds no client for longer. Throws std::invalid_argument beyond that, and for a
  // measured client.
  static constexpr std::int64_t kLongestAwayNs = 10'000'000'000;
  void send_away(ClientId id, std::int64_t for_ns);
  // Has the client work to do?
  struct Standing {
    bool at_gate = false; // a launch or copy of it waits at the gate
    bool busy = false;    // some of its launches or grants are not known to be complete
    std::uint64_t launches = 0;
  };
  Standing standing(ClientId id);
  bool stands(ClientId id); // its host is stopped, as of the last look
  tracking::Spent spent(ClientId id); // Stats::spent alone, which costs little
  Timed measured(ClientId id);
  forecaster::Learnt learnt(ClientId id); // in this run; ask after measured()
  // dispatcher_plans.cpp. Takes tens of ms, of a long iteration, and holds up decisions for less than .1 ms at a time.
  Touched accesses(ClientId id);
  // The iteration that the client is going through; empty: none that is known.
  std::optional<InPass> iteration(ClientId id);
  // The client's plan, see PlanWords.
  std::uint32_t set_plan(ClientId id, std::uint64_t first_launch, std::uint32_t launches, std::string_view moves, std::int64_t until_ns);
  std::uint32_t renew_plan(ClientId id, std::optional<std::uint64_t> first_launch, std::int64_t until_ns);
  void drop_plan(ClientId id);
  PlanState plan_state(ClientId id);
  // The cost of a switch, by each client of the highest level that has enough samples (SwitchMeter).
  std::vector<tracking::SwitchMeter::Word> switches();
  // Changes the priority. The gate opens for a moment, and is closed again if the policy wants that. Throws std::invalid_argument for an
  // unknown client, for a measured one, and for a number that is no priority.
  void set_priority(ClientId id, int priority);
  // What is known of the GPU now, from reports of clients of this priority and above.
  policy::Device device(int priority = 9);
  // The switch that a previous fikitd measured, from reports of clients of this priority and above. It holds for clients of this priority and
  // below until this fikitd has measured it.
  void remember_switch(std::int64_t switch_ns, std::int64_t spread_ns, std::uint32_t count, int priority);
  std::vector<Idle> idle_moments(ClientId id); // the newest; see tracking/accounting/launch_stats.hpp
  Story journal(ClientId id);
  void stop(); // opens all gates, ends the thread; may be called more than once

 private:
  // All private functions are called with mutex_ held.
  enum class Look : std::uint8_t {
    again,   // now: spin
    sure,    // at until_ns, in any case
    for_news // at until_ns, if there is something new to read
  };
  struct Wait {
    Look look = Look::again;
    std::int64_t until_ns = 0;
  };
  void run();
  void round();
  void take_reports(std::int64_t now_ns);
  void decide(std::int64_t now_ns);
  bool see_hosts(std::int64_t now_ns); // whether a client's host was stopped, or goes on
  void put_down_holds(std::int64_t now_ns);
  void carry_out(const policy::Decision& decision, std::int64_t now_ns);
  void tell_higher(const Client& lower, std::uint32_t kernels); // that `lower` was granted so many kernels
  void tell_higher_what_ran(Client& lower);
  bool renew_leases(std::int64_t now_ns); // if they are due; returns whether they were
  std::int64_t lease_ns(std::int64_t now_ns) const;
  std::int64_t renewal_ns(std::int64_t now_ns) const; // when leases are to be renewed
  std::int64_t keeping_ns(std::int64_t now_ns) const; // time between two looks at the pages
  std::int64_t slice_ns(std::int64_t now_ns) const; // the same while a launch waits at a gate
  Wait plan(std::int64_t now_ns) const;
  // dispatcher_turns.cpp
  void see_turns();
  void take_turns(std::int64_t now_ns);
  void begin_turn(Client& client, std::int64_t now_ns);
  void end_turn(Client& client, std::int64_t now_ns);
  void next_turn(const Client& client, std::int64_t now_ns);
  bool busy(const Client& client) const;   // work of it may be on the GPU
  bool call_back_due(std::int64_t now_ns); // calls back clients whose time away is over; true: there was one
  std::int64_t next_back_ns() const;       // when the next client's time away is over
  void tell_clients(); // whether they are alone, and whether marks are wanted
  void read(Client& client); // from now on in each round, until it is silent
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
  std::unordered_map<std::uint64_t, std::shared_ptr<Siblings>> siblings_; // by gang; an entry outlives its clients
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<Client*> turns_; // measured clients with siblings that are measured
  std::array<Client*, policy::kMaxClients> by_slot_{}; // by slot of the policy's table; nullptr: not in use
  std::vector<Client*> reading_; // clients whose pages each round reads: all that are not silent, in no order
  struct Reporting {
    std::int64_t t_ns = 0; // time of its next report
    Client* client = nullptr;
  };
  std::array<Reporting, policy::kMaxClients> reporting_{}; // room for one round
  std::size_t trace_events_;
  Doorbells doorbells_;

  bool awake_ = false;        // the thread spins, so that clients need not ring
  bool closed_ = false;       // is any gate closed?
  int lowest_ = 0;            // priority of the lowest client
  bool settled_ = false;      // without an event no wait's reason changes before wake_at_ns_
  std::int64_t wake_at_ns_ = policy::kNever;
  std::int64_t renewed_ns_ = 0;
  std::int64_t given_ns_ = 0;       // length of the leases given then
  std::int64_t moved_ns_ = 0;       // when a round last found something new
  std::int64_t acted_ns_ = 0;       // when it had acted upon that
  std::int64_t hosts_ns_ = 0;       // when see_hosts() last looked
  std::int64_t gate_moved_ns_ = 0;  // when something last happened at a closed gate
  policy::Decisions decisions_;

  std::mutex mutex_;
  bool stopping_ = false;
  std::thread thread_;
};

} // namespace fikit::dispatcher
