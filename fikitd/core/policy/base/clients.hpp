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
  double max_slowdown = 0.05;         // how much longer it may take because of them
  std::int64_t max_delay_ns = kNever; // the longest single delay
};

// Who decides about a client, as one level's policy (level_policy.hpp) sees it.
enum class Decided : std::uint8_t {
  here,  // that one
  above, // a higher level's; all that the client reports is known here, too
  below, // a lower level's; here only what it is granted is known
};

struct Grant {
  std::uint32_t request = 0;
  std::int64_t duration_ns = kUnknown;
  std::int64_t end_ns = 0; // reckoned; with unknown duration: the end of its lease
  bool ended = false; // its run was: when its client will say that it is complete is when it asks again
  std::int64_t moved_ns = 0; // by so much its client's reports have moved its end: by a lease at most
};

// What its newest grant still lets through.
struct Run {
  std::uint32_t launches = 0; // without asking, after the one that was asked for
  bool taken = false;         // that one has been launched
  std::int64_t left_ns = 0;   // device time of all that has not been launched
  std::int64_t granted_ns = 0; // of all of it
  bool mispredicted = false;         // its newest launch was more than what was left
  std::int64_t spare_ns = 0;   // was taken back before it was launched, and is reckoned with all the same
  // What is likely to follow its newest launch without a wait; and when all those above are at rest.
  Launches next{.launches = 0, .work_ns = 0};
  Launches long_next{.launches = 0, .work_ns = 0};

  // The newest launch takes duration_ns; these begin with it.
  void follows(const Launches& run, const Launches& long_run, std::int64_t duration_ns) {
    const auto behind = [duration_ns](const Launches& all) {
      return Launches{.launches = duration_ns < 0 || all.launches == 0 ? 0 : all.launches - 1,
                      .work_ns = std::max<std::int64_t>(0, all.work_ns - duration_ns)};
    };
    next = behind(run), long_next = behind(long_run);
  }
  // No more than half of these has been granted.
  bool half_granted(const Launches& of) const { return 2 * launches <= of.launches; }
  std::int64_t more_ns(const Launches& of) const { return std::max<std::int64_t>(0, of.work_ns - left_ns); } // than is granted
};

struct Client {
  // Who it is, as it came.
  std::size_t slot = 0; // below kMaxClients, its own while it is here: where a policy keeps what it knows of it
  Protection protection;
  ClientId id = 0;
  int priority = 5;
  bool measuring = false;
  Decided decided = Decided::here;

  // What its dispatcher has reported.
  bool at_rest = true;           // its host has waited for all its work, and nothing was launched since
  bool waiting = false;          // a launch stands at the gate and has no grant
  Engine copy = Engine::compute; // another one: a copy for it stands there
  bool waiting_exclusive = false; // its kernel may need the device for as long as others of its job are not there
  bool exclusive_runs = false;    // such a kernel of its job is on a device: nothing of it is held until that is over
  bool reports_done = false;      // has ever reported the completion of a grant
  std::int64_t waiting_since_ns = 0;
  std::uint32_t request = 0;

  // What is predicted.
  std::uint32_t run_launches = 1; // the launch that waits, and those that are likely to follow it
  Launches long_run;              // the same when all those above are at rest
  std::int64_t waiting_duration_ns = kUnknown;
  std::int64_t cautious_ns = kUnknown; // the same, but of a long kernel what nine of ten like it do not exceed
  std::int64_t run_ns = kUnknown;
  std::int64_t gap_ns = kUnknown; // after its last launch

  // What the policy has decided.
  bool closed = false;  // its gate
  // Until then what it reports of launches that nobody granted counts: they may have passed before its gate was closed.
  std::int64_t believed_until_ns = kNever;
  std::uint32_t to_launch = 0; // of what was granted, as far as it has not reported it
  CopyEngines asks{};   // copies for these have to ask
  bool distrusted = false; // reckoned ends of its work are doubted: who waits for it waits for its word
  Run run;              // granted

  // What the table reckons from all this. Of all its work on the device:
  Progress progress;
  Backlog backlog; // in the table's queue
  // Its newest launch stood behind lower work that was on the device already, for so long as far as is reckoned. Not where it
  // will be said when that work is complete.
  ClientId stood_behind = 0;
  std::int64_t stood_ns = 0;
  std::int64_t stood_until_ns = 0; // time that was counted so is not counted again
  // Of what was granted to it:
  std::int64_t overran_ns = 0; // its newest launch, or complete grant, takes so much more than was granted
  std::int64_t lease_ns = 0;   // no completion that it might yet report is waited for any longer
  std::int64_t late_ns = 0;    // than reckoned that grant was; what is in flight behind it is as late
  Grant forgotten;             // the newest that counts as over without its client's word, which may say yet how late it was
  std::size_t grant_count = 0;

  bool at_gate() const { return waiting || copy != Engine::compute; }
  // Can it be that it launched something then, on a grant or through its open gate?
  bool may_have_launched(bool granted, std::int64_t t_ns) const {
    return !closed || (granted ? to_launch > 0 : t_ns < believed_until_ns);
  }
  bool waits_here() const { return waiting && decided == Decided::here; }
  // A measuring client neither holds others nor is held.
  bool outranks(const Client& other) const { return !measuring && !other.measuring && priority < other.priority; }
  // Of two that wait: the higher one, then the longer waiting one.
  bool goes_before(const Client& other) const {
    return priority != other.priority ? priority < other.priority : waiting_since_ns < other.waiting_since_ns;
  }
  // Granted kernels that are not known to be complete; work from before its gate was closed counts as one.
  std::size_t in_flight(std::int64_t now_ns) const {
    return grant_count > 0 ? grant_count : static_cast<std::size_t>(progress.busy(now_ns));
  }
  // Granted work whose reckoned end has passed without the client's word that it is complete.
  bool overdue(std::int64_t now_ns) const { return grant_count > 0 && !progress.busy(now_ns); }
  // Reckoned ends are doubted, the oldest grant takes longer, and its client will say when it is complete.
  bool late(std::int64_t now_ns) const;
  // Moment at which the oldest grant stops counting as in flight whatever the client says. A client that reports
  // completions is given time for its report; dead reckoning is all there is for one that does not.
  std::int64_t forget_ns() const;
  std::optional<std::int64_t> reckoned_end_ns(std::uint32_t request) const; // of a grant that is not known to be over

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
  ClientSet rows_; // as they were: whoever is looked at may change
  std::uint64_t& looks_;
};

class ClientTable {
 public:
  explicit ClientTable(std::int64_t lease_ns) : lease_ns_(lease_ns) {}

  Client* find(ClientId id);
  const Client* find(ClientId id) const;
  // slot: its own, where it has one already. nullptr: present, or table full.
  Client* add(ClientId id, int priority, bool measuring, std::int64_t now_ns, std::size_t slot = kMaxClients);
  bool remove(ClientId id, std::int64_t now_ns);
  // The highest first, equals by their number: whoever came when, an answer that depends on an order is the same.
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
  // The first row of those that are below this priority, measuring or not; of this priority.
  std::size_t first_below(int priority) const { return priority < 9 ? level_begin_[static_cast<std::size_t>(priority) + 1] : count_; }
  std::size_t first_of(int priority) const { return level_begin_[static_cast<std::size_t>(priority)]; }
  // Clients above this priority.
  ClientSet above(int priority) const { return everybody_.without(index_.sets().measuring).before(first_of(priority)); }

  // A client's own work that is not over, as another table knows it.
  void take_over(const Client& known, std::int64_t now_ns);
  // The priority that is decided here.
  void set_level(int level);

  // Whoever changes a client in any other way than below says so afterwards.
  void changed(const Client& client) { index_.put(row(client), client); }
  void work_changed(const Client& client) { index_.put_work(row(client), client); } // and nothing else
  const Index& index() const { return index_; }
  // Is the index what it would be if it were made anew? For tests: it looks at all.
  bool index_agrees() const;
  // Clients looked at, or asked what a delay would be, and groups of them in the index, since it was made.
  std::uint64_t looks() const { return looks_ + index_.looks(); }
  void asked() const { ++looks_; }

  // A client at a closed gate is believed what it was granted, and for a lease what may have passed before the gate was closed.
  // Whatever else it reports keeps nobody from the device.
  void close(Client& client, std::int64_t now_ns);
  void open(Client& client);
  // Was the launch that it reports let go? It counts.
  bool let_go(Client& client, bool granted, std::int64_t t_ns) const;

  void launched(Client& client, std::int64_t t_ns, std::int64_t duration_ns, std::int64_t gap_ns,
                std::int64_t in_line_ns = 0);
  void granted_launch(Client& client, std::int64_t t_ns, std::uint32_t request, std::int64_t duration_ns,
                      std::int64_t gap_ns);
  void drained(Client& client, const Completion& seen);
  void running(Client& client, std::int64_t t_ns, std::int64_t remaining_ns);
  void grant_done(Client& client, std::int64_t t_ns, std::uint32_t request);
  // Its waiting request, or the run that begins with it; counts as launched from now.
  void grant(Client& client, std::int64_t now_ns, const Launches& granted);
  // Its run, to what is likely to follow: so many launches more, which count as launched from now.
  std::uint32_t extend(Client& client, std::int64_t now_ns, const Launches& to);
  std::uint32_t give_more(Client& client, std::int64_t now_ns, const Launches& more); // the same, by how much
  void end_run(Client& client);
  // A client that is decided about below says that these, or all, of its grants are over.
  void done_below(Client& client, std::int64_t t_ns, std::uint32_t request);
  void all_done_below(Client& client, std::int64_t t_ns);
  // What a run that was ended has not launched: it asks again, so that none of that is on its way any more.
  void take_back(Client& client, std::int64_t t_ns);
  // What is over by now_ns is not to come any more; grants that old count as complete.
  void pass(std::int64_t now_ns);
  // The next moment at which some client's work, or a grant, is over, as far as is reckoned; kNever if there is none.
  std::int64_t next_end_ns(std::int64_t now_ns) const;

  void forget(Client& client, const Grant& grant) const;
  void see_end(Client& client, const Grant& grant, std::int64_t t_ns) const;
  // When all known work of the others is off the device; notes how much of that the client owes to lower ones.
  std::int64_t see_queue(Client& client, std::int64_t t_ns) const;
  // When all known work of everybody but `except` is off the device, which serves its clients one after the other.
  std::int64_t device_free_ns(const Client* except) const;
  // The same of all of it, in whatever order the device serves it.
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
