// The clients of one GPU as a policy sees them, and what is in flight for each. A fixed table: nothing here allocates.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "client_set.hpp"
#include "copying.hpp"
#include "index.hpp"
#include "progress.hpp"
#include "queue.hpp"
#include "reason.hpp"
#include "types/launches.hpp"

namespace fikit::policy {

inline constexpr std::size_t kMaxGrants = 64; // grants of one client in flight

// What lower clients may cost a client at most.
struct Protection {
  double max_slowdown = 0.05;         // how much longer the client may take because of lower ones
  std::int64_t max_delay_ns = kNever; // the longest single delay
};

// Which level's policy decides about a client, as one level's policy (level_policy.hpp) sees it.
enum class Decided : std::uint8_t {
  here,  // this policy
  above, // a higher level's; this policy knows all that the client reports, too
  below, // a lower level's; this policy knows only what the client is granted
};

struct Grant {
  std::uint32_t request = 0;
  std::int64_t duration_ns = kUnknown;
  std::int64_t end_ns = 0; // reckoned; with unknown duration: the end of its lease
  bool ended = false; // the policy has ended its run: the client reports it complete only when it asks again
  std::int64_t moved_ns = 0; // by how much the client's reports have moved end_ns: a lease at most
};

// What a client's newest grant still lets through the gate.
struct Run {
  std::uint32_t launches = 0; // how many launches may follow the one that the client asked for, without asking
  bool taken = false;         // the client has launched the one that it asked for
  std::int64_t left_ns = 0;   // device time of the granted launches that the client has not made
  std::int64_t granted_ns = 0; // device time of all granted launches
  bool mispredicted = false;         // the client's newest launch was longer than left_ns
  std::int64_t spare_ns = 0;   // device time that the policy took back before the client launched it; it is reckoned with all the same
  // What the client is likely to launch after its newest launch without a wait; and the same where all clients above are at rest.
  Launches next{.launches = 0, .work_ns = 0};
  Launches long_next{.launches = 0, .work_ns = 0};

  // Notes what follows the newest launch, which takes duration_ns; `run` and `long_run` begin with that launch.
  void follows(const Launches& run, const Launches& long_run, std::int64_t duration_ns) {
    const auto behind = [duration_ns](const Launches& all) {
      return Launches{.launches = duration_ns < 0 || all.launches == 0 ? 0 : all.launches - 1,
                      .work_ns = std::max<std::int64_t>(0, all.work_ns - duration_ns)};
    };
    next = behind(run), long_next = behind(long_run);
  }
  // No more than half of these launches has been granted.
  bool half_granted(const Launches& of) const { return 2 * launches <= of.launches; }
  std::int64_t more_ns(const Launches& of) const { return std::max<std::int64_t>(0, of.work_ns - left_ns); } // work beyond what is granted
};

struct Client {
  // Set when the client comes.
  std::size_t slot = 0; // below kMaxClients, the client's own until it goes: a policy's place for what it knows of the client
  Protection protection;
  ClientId id = 0;
  int priority = 5;
  bool measuring = false;
  bool overlaps = false; // it is a client of the GPU's MPS server
  std::uint64_t user = 0; // whose it is, and of which job, by fikitd's records: numbers that say only who is the same
  std::uint64_t job = 0;
  Decided decided = Decided::here;

  // What the client's events have said.
  bool at_rest = true;           // its host has waited for all its work, and has launched nothing since
  bool stands = false;           // its host is stopped: nothing of the client waits for the device but what it launched before
  bool waiting = false;          // a launch of the client stands at the gate and has no grant
  Engine copy = Engine::compute; // a copy engine: a copy of the client for it stands at the gate
  bool waiting_exclusive = false; // the kernel that waits may keep the device until kernels of the same job on other GPUs have begun
  bool exclusive_runs = false;    // such a kernel of the client's job is on a device: the client is not held until that is complete
  bool reports_done = false;      // the client has reported the completion of a grant before
  std::int64_t waiting_since_ns = 0;
  std::uint32_t request = 0;

  // What the predictor says.
  std::uint32_t run_launches = 1; // the launch that waits, and the launches that are likely to follow it
  Launches long_run;              // the same where all clients above are at rest
  std::int64_t waiting_duration_ns = kUnknown;
  std::int64_t cautious_ns = kUnknown; // the same; of a long kernel the time that nine of ten like it do not exceed
  std::int64_t feared_ns = kUnknown;  // the same; what a rare one takes, where rare ones take much of the kernel's time
  std::int64_t longest_ns = kUnknown; // the same; of all that were seen the longest
  std::int64_t run_longer_ns = 0; // by how much a later kernel of the run may take longer than predicted, at the longest seen
  std::int64_t run_ns = kUnknown;
  std::int64_t gap_ns = kUnknown; // after the client's last launch

  // What the policy has decided.
  bool closed = false;  // the client's gate is
  // Until then launches count that the client reports without a grant: they may have passed the gate before it was closed.
  std::int64_t believed_until_ns = kNever;
  std::uint32_t to_launch = 0; // granted launches that the client has not reported yet
  CopyEngines asks{};   // the engines for which the client's copies have to ask
  bool distrusted = false; // the policy doubts reckoned ends of the client's work: others wait until the client reports them
  Run run;              // what is granted

  // What the table reckons from all this. Of all the client's work on the device:
  Progress progress;
  Backlog backlog; // in the table's queue
  // When the client made its newest launch, work of a lower client (stood_behind) was on the device and delayed the launch by stood_ns,
  // as reckoned. 0 where the lower client reports its completions: its report will say how long it delayed others.
  ClientId stood_behind = 0;
  std::int64_t stood_ns = 0;
  std::int64_t stood_until_ns = 0; // delays are counted until this moment, and time before it is not counted again
  // Of the client's grants:
  std::int64_t overran_ns = 0; // by how much the newest launch, or the newest complete grant, takes longer than was granted
  std::int64_t lease_ns = 0;   // the longest time for which others wait for the client's report of a completion
  std::int64_t late_ns = 0;    // by how much that grant was complete later than reckoned; the client's next grants are as late
  Grant forgotten;             // the newest grant that counted as over before the client reported it; the report may still say how late
  std::size_t grant_count = 0;

  bool at_gate() const { return waiting || copy != Engine::compute; }
  // May the client have launched something at t_ns, on a grant (granted) or through its open gate?
  bool may_have_launched(bool granted, std::int64_t t_ns) const {
    return !closed || (granted ? to_launch > 0 : t_ns < believed_until_ns);
  }
  bool waits_here() const { return waiting && decided == Decided::here; }
  // A measuring client neither holds others nor is held.
  bool outranks(const Client& other) const { return !measuring && !other.measuring && priority < other.priority; }
  // Do the kernels of the two overlap (MPS)? If not, the two take turns on the device, and each turn begins with a switch.
  bool runs_beside(const Client& other) const { return overlaps && other.overlaps; }
  // Of two clients that wait: the higher one, then the one that has waited longer.
  bool goes_before(const Client& other) const {
    return priority != other.priority ? priority < other.priority : waiting_since_ns < other.waiting_since_ns;
  }
  // How many granted kernels are not known to be complete; work from before the gate was closed counts as one.
  std::size_t in_flight(std::int64_t now_ns) const {
    return grant_count > 0 ? grant_count : static_cast<std::size_t>(progress.busy(now_ns));
  }
  // The reckoned end of its granted work has passed, and the client has not reported that the work is complete.
  bool overdue(std::int64_t now_ns) const { return grant_count > 0 && !progress.busy(now_ns); }
  // The client is distrusted, its oldest grant takes longer than reckoned, and the client will report when that is complete.
  bool late(std::int64_t now_ns) const;
  // Moment at which the oldest grant stops counting as in flight whatever the client says. A client that reports
  // completions is given time for its report; dead reckoning is all there is for one that does not.
  std::int64_t forget_ns() const;
  std::optional<std::int64_t> reckoned_end_ns(std::uint32_t request) const; // nullopt: that grant is over, or unknown

  std::array<Grant, kMaxGrants> grants{}; // oldest first; last here, so that what every decision reads lies together
};

// The clients of a table that are in a set of rows, in its order; each one that is reached counts as looked at.
template <class Element>
class ClientView {
 public:
  class Iterator {
   public:
    Iterator(Element* clients, const ClientSet& rows, std::size_t row, std::uint64_t& looks)
        : clients_(clients), rows_(rows), row_(row), looks_(looks) {}
    Element& operator*() const {
      ++looks_;
      return clients_[row_];
    }
    Iterator& operator++() {
      row_ = rows_.next(row_ + 1);
      return *this;
    }
    bool operator!=(const Iterator& other) const { return row_ != other.row_; }

   private:
    Element* clients_;
    const ClientSet& rows_;
    std::size_t row_;
    std::uint64_t& looks_;
  };

  ClientView(Element* clients, const ClientSet& rows, std::uint64_t& looks) : clients_(clients), rows_(rows), looks_(looks) {}
  Iterator begin() const { return {clients_, rows_, rows_.first(), looks_}; }
  Iterator end() const { return {clients_, rows_, kMaxClients, looks_}; }

 private:
  Element* clients_;
  ClientSet rows_; // a copy: a client may leave the set while the caller looks at it
  std::uint64_t& looks_;
};

class ClientTable {
 public:
  explicit ClientTable(std::int64_t lease_ns) : lease_ns_(lease_ns) {}

  Client* find(ClientId id);
  const Client* find(ClientId id) const;
  // slot: the client's own, where it has one already. nullptr: the client is present, or the table full.
  Client* add(ClientId id, int priority, bool measuring, std::int64_t now_ns, std::size_t slot = kMaxClients);
  bool remove(ClientId id, std::int64_t now_ns);
  // The highest first, equals by their id: so no answer depends on the order in which clients came.
  std::span<const Client> span() const { return {clients_.data(), count_}; }
  ClientView<Client> all() { return among(everybody_); }
  ClientView<const Client> all() const { return among(everybody_); }
  ClientView<Client> among(const ClientSet& rows) { return {clients_.data(), rows, looks_}; }
  ClientView<const Client> among(const ClientSet& rows) const { return {clients_.data(), rows, looks_}; }
  Client& at(std::size_t row) {
    ++looks_;
    return clients_[row];
  }
  const Client& at(std::size_t row) const { return const_cast<ClientTable*>(this)->at(row); }
  std::size_t row(const Client& client) const { return static_cast<std::size_t>(&client - clients_.data()); }
  // The first row of the clients below this priority, measuring or not; of the clients of this priority.
  std::size_t first_below(int priority) const { return priority < 9 ? level_begin_[static_cast<std::size_t>(priority) + 1] : count_; }
  std::size_t first_of(int priority) const { return level_begin_[static_cast<std::size_t>(priority)]; }
  // Clients above this priority.
  ClientSet above(int priority) const { return everybody_.without(index_.sets().measuring).before(first_of(priority)); }

  // Takes over a client's own unfinished work, as another table knows it.
  void take_over(const Client& known, std::int64_t now_ns);
  // The priority about which this table's policy decides.
  void set_level(int level);

  // To be called by whoever has changed a client in any other way than by the functions below.
  void changed(const Client& client) { index_.put(row(client), client); }
  void work_changed(const Client& client) { index_.put_work(row(client), client); } // where only its work has changed
  const Index& index() const { return index_; }
  // Is the index what it would be if it were made anew? For tests: it looks at all clients.
  bool index_agrees() const;
  // Clients, and groups of clients in the index, that were looked at or of which a delay was reckoned, since the table was made.
  std::uint64_t looks() const { return looks_ + index_.looks(); }
  void asked() const { ++looks_; }

  // Of a client at a closed gate the table believes the launches that it was granted, and for a lease those that may have passed before
  // the gate was closed. Nothing else that the client reports keeps others from the device.
  void close(Client& client, std::int64_t now_ns);
  void open(Client& client);
  // May the client have made the launch that it reports? If so, the launch is counted.
  bool let_go(Client& client, bool granted, std::int64_t t_ns) const;

  void launched(Client& client, std::int64_t t_ns, std::int64_t duration_ns, std::int64_t gap_ns,
                std::int64_t in_line_ns = 0);
  void granted_launch(Client& client, std::int64_t t_ns, std::uint32_t request, std::int64_t duration_ns,
                      std::int64_t gap_ns);
  void drained(Client& client, const Completion& seen);
  void running(Client& client, std::int64_t t_ns, std::int64_t remaining_ns);
  void grant_done(Client& client, std::int64_t t_ns, std::uint32_t request);
  // Grants the client's waiting launch, or the run that begins with it; it counts as launched from now on.
  void grant(Client& client, std::int64_t now_ns, const Launches& granted);
  // Lengthens the client's run to these launches. How many more these are; they count as launched from now on.
  std::uint32_t extend(Client& client, std::int64_t now_ns, const Launches& to);
  std::uint32_t give_more(Client& client, std::int64_t now_ns, const Launches& more); // the same, by how much
  void end_run(Client& client);
  // A client about which a lower level's policy decides reports that its grants up to this request, or all, are over.
  void done_below(Client& client, std::int64_t t_ns, std::uint32_t request);
  void all_done_below(Client& client, std::int64_t t_ns);
  // Takes back what the client has not launched of a run that was ended: as it asks again, none of that is on its way any more.
  void take_back(Client& client, std::int64_t t_ns);
  // Time has come to now_ns: work that ends before is over, and grants that old count as complete.
  void pass(std::int64_t now_ns);
  // The next moment at which the work of a client, or a grant, is over, as reckoned; kNever if there is none.
  std::int64_t next_end_ns(std::int64_t now_ns) const;

  void forget(Client& client, const Grant& grant) const;
  void see_end(Client& client, const Grant& grant, std::int64_t t_ns) const;
  // When the device has done all known work of the other clients; notes by how much lower ones of these delay the client (stood_ns).
  std::int64_t see_queue(Client& client, std::int64_t t_ns) const;
  // When the device has done all known work of all clients but `except`, one client after the other.
  std::int64_t device_free_ns(const Client* except) const;
  // When it has done all known work of all clients, in whatever order.
  std::int64_t queue_free_ns() const { return queue_.free_ns(); }

 private:
  Decided decided(int priority) const {
    return priority == level_ ? Decided::here : priority < level_ ? Decided::above : Decided::below;
  }
  void cap(Client& client, const Progress& before, std::int64_t t_ns) const;
  void enqueue(Client& client, std::int64_t t_ns, std::int64_t duration_ns, std::int64_t gap_ns, std::int64_t in_line_ns = 0);
  void reindex();

  std::int64_t lease_ns_;
  int level_ = 10;

  Queue queue_; // measuring clients' work is not in it
  std::array<Client, kMaxClients> clients_{};
  std::size_t count_ = 0;
  ClientSet everybody_;
  std::array<std::size_t, 11> level_begin_{}; // by priority, and below all: the first row at it or below
  struct Named {
    ClientId id = 0;
    std::size_t row = 0;
  };
  std::array<Named, kMaxClients> by_id_{};
  Index index_;
  mutable std::uint64_t looks_ = 0;
  std::array<bool, kMaxClients> slots_{}; // taken
};

} // namespace fikit::policy
