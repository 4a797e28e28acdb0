// What every scheduling policy is: a pure state machine. Events go in through apply(), decisions come out of decide().
// No clock (time is a field of the event), no thread, no input or output, no allocation after construction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "clients.hpp"
#include "copying.hpp"
#include "times.hpp"
#include "told.hpp"
#include "tuning.hpp"

namespace fikit::policy {

// What a client would do if it were alone, as far as it is known. "Wait": the host waits for all its work; what is launched
// between two waits is a segment.
struct Outlook {
  // launched: for so long would the device be idle from the end of this launch to the end of the next wait, if it were due
  // by then anyway. drained: the same for the next segment, from its first launch on.
  Times slack;
  Times idle;                      // drained: until the next launch; copied: until the next copy in that direction
  std::int64_t span_ns = kUnknown; // drained: from the first launch of the segment to the end of this wait, at most
  std::int64_t tail_ns = kUnknown; // drained: from its last launch on, at least
  // drained: alone, the wait ends so much later than the work, as reckoned, and its own beginning; negative where the work is
  // reckoned too long; kLongAgo: unknown
  std::int64_t after_ns = kLongAgo;
  // drained: until the next launch where nobody else is on the device, if it is always about as long: at most
  std::int64_t alone_idle_ns = kUnknown;
  std::int64_t high_ns = kUnknown; // waiting: nine of ten kernels like this one take no longer
  std::int64_t in_line_ns = 0;     // launched: what the device needs before it when it stands in line
  // waiting, launched on a grant: these are likely to follow each other without a wait, this one the first.
  Launches run;
  Launches long_run; // for when all those above are at rest; never less
  bool open = false;               // drained: sometimes the next launch follows at once, sometimes long after: requests
                                   // come from outside, and may be waiting already
};

struct Options {
  std::int64_t lease_ns = 100'000'000;    // how long silence, or work of unknown length, may hold others
  std::int64_t epsilon_ns = 20'000;       // gaps with less than this left are not filled
  std::int64_t run_ahead_ns = 500'000;    // predicted lower-priority work in flight while the holder is idle
  std::int64_t idle_after_ns = 2'000'000; // a gap that outlasts its prediction by this makes its client idle
  Protection protection{};                // of a client that does not say it itself
  Tuning tuning{};
  std::int64_t ageing_ns = 1'000'000'000; // a request that has waited so long is served next, whatever it costs
};

enum class EventKind : std::uint8_t {
  client_added,    // priority, measuring, protection
  client_removed,
  profiled,        // outlook.slack: of the first launch of any segment, as far as its profile says; the least
  launched,        // duration_ns, gap_ns; granted and request when it went through a closed gate
  waiting,         // request, engine, duration_ns: a launch, or a copy, stands at a closed gate
  copied,          // engine, outlook.idle: a copy was handed to the device
  waiting_ended,   // the client gave the request up
  drained,         // waited; duration_ns: predicted work still queued at time_ns, 0 = the queue ran dry; since_ns: when it was not so;
                   // spread_ns: by how much the predictions behind the reckoning may well be exceeded
  running,         // work before the last duration_ns of predicted work is still under way at time_ns
  grant_done,      // request: this granted kernel, and those before it, have completed
  exclusive_runs,  // exclusive: a kernel that waits for others of its job is on a device now, or (false) none is any more
  tick,
};

struct Event {
  EventKind kind = EventKind::tick;
  ClientId client = 0;
  std::int64_t time_ns = 0;
  std::int64_t since_ns = kLongAgo;
  std::int64_t spread_ns = kUnknown;
  bool waited = true; // drained: the client's host knows it; false: only we do
  std::int64_t began_ns = kLongAgo; // drained, waited: since when the host has waited, as far as it says so
  int priority = 5; // 0 (highest) to 9
  bool measuring = false;
  std::optional<Protection> protection{}; // client_added
  bool granted = false;
  bool exclusive = false; // waiting: the kernel waits for others like itself once it runs (cooperative, collective)
  std::uint32_t request = 0;
  Engine engine = Engine::compute; // another one: it is about a copy
  std::int64_t duration_ns = kUnknown;
  std::int64_t gap_ns = kUnknown; // predicted idle time after this launch, until the client's next one
  Outlook outlook{};
};

enum class DecisionKind : std::uint8_t {
  open,
  close,
  ask_copies, // long copies for these engines ask at the closed gate, others pass
  grant,   // the request, and the launches - 1 that follow it, may go
  extend_run, // so many launches more may follow those of the newest grant
  end_run, // of these, none may go any more
  wake_at,
};

struct Decision {
  DecisionKind kind = DecisionKind::wake_at;
  ClientId client = 0;
  std::uint32_t request = 0;  // grant
  std::uint32_t launches = 1; // grant, extend_run
  CopyEngines engines{};      // ask_copies
  std::int64_t time_ns = 0;   // wake_at: call decide() then, if no event comes first
};

// Room for the most that one decide() can say: one gate change, one word on copies, one grant, one longer run and the end of one
// per client, one wake_at.
class Decisions {
 public:
  void clear() { size_ = 0; }
  void add(const Decision& decision) { items_[size_++] = decision; }
  std::span<const Decision> items() const { return {items_.data(), size_}; }

 private:
  std::array<Decision, 5 * kMaxClients + 1> items_{};
  std::size_t size_ = 0;
};

class Policy {
 public:
  explicit Policy(const Options& options) : options_(options), clients_(options.lease_ns) {}
  virtual ~Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  // Takes note of what happened. Several events may be applied before one decide(): decisions in between would rest on
  // a past that later events already contradict. False: the client is unknown, known already, or one too many.
  bool apply(const Event& event);

  // What to do at now_ns. `out` is cleared first. No wake_at means: nothing changes until the next event.
  void decide(std::int64_t now_ns, Decisions& out);

  // Does it use the outlooks of events? For others nobody needs to learn them.
  virtual bool looks_ahead() const { return false; }

  // Read-only view, for accounting; nullptr when the client is unknown.
  const Client* client(ClientId id) const { return clients_.find(id); }
  std::span<const Client> all() const { return clients_.span(); }
  // How many clients, or groups of them in the index, were looked at, or asked, since it was made: what its decisions cost, for
  // tests.
  std::uint64_t looks() const { return clients_.looks(); }
  bool index_agrees() const { return clients_.index_agrees(); }
  std::int64_t queue_free_ns() const { return clients_.queue_free_ns(); }

  // Why a client stands at the gate, as the last decision said; Reason::none: it came later.
  Hold held(const Client& client) const { return told_.of(clients_.row(client)); }
  // seen(client, why) of each that stands there.
  template <class Seen>
  void each_held(Seen seen) const {
    told_.each(clients_.index().at_gate(), [&](const Rows& rows, const Hold& why) {
      for (const Client& client : clients_.among(rows)) seen(client, why);
    });
  }

 protected:
  // Are clients held at all for the sake of those that outrank them?
  virtual bool gates() const { return true; }
  // What just happened to a client, after it was taken note of.
  virtual void noted(const Event&, const Client&) {}
  // The next request to grant, or nullptr. Called until it says nullptr; what is granted counts as in flight at once.
  // Before it says nullptr it has told every client that waits why (hold).
  virtual Client* choose(std::int64_t now_ns) = 0;
  // What the grant of a chosen client covers: its request, and of those that follow it so many less one.
  virtual Launches granted(const Client& client) const { return only_one(client); }
  static Launches only_one(const Client& client) { return {.launches = 1, .work_ns = client.waiting_duration_ns}; }
  // Which of this held client's copies matter to somebody above it.
  virtual CopyEngines copies_that_matter(const Client&) const { return {}; }
  // Of those whose copy stands at the gate, the next to grant, or nullptr; as choose().
  virtual Client* choose_copy(std::int64_t) { return nullptr; }
  // A client whose run goes on, and how far; as choose().
  struct Extension {
    Client* client = nullptr;
    Launches to;
  };
  virtual Extension extended(std::int64_t) { return {}; }
  // A client whose run must not go on, or nullptr; asked until it says nullptr.
  virtual Client* overstaying(std::int64_t) { return nullptr; }
  // When choose() may answer differently without any event; kNever if no such moment.
  virtual std::int64_t next_change_ns(std::int64_t now_ns) const = 0;

  // Of all that wait and need not wait for their kernel's sake, the highest, and of these the longest waiting.
  Client* first_waiting(std::int64_t now_ns);
  // Whoever keeps this one's kernel, which fills no gap, from going: above it, and not idle for idle_after_ns yet.
  const Client* keeps_from_gap(const Client& client, std::int64_t now_ns) const;
  // When that may be over for one of those that wait; kNever if for none.
  std::int64_t next_idle_ns(std::int64_t now_ns) const;
  // The highest client for which this holds, measuring ones left out: if it does not outrank somebody, none of them does.
  template <class Holds>
  const Client* highest(Holds holds) const {
    const Client* best = nullptr;
    for (const Client& client : clients_.all())
      if (!client.measuring && (best == nullptr || client.priority < best->priority) && holds(client)) best = &client;
    return best;
  }
  ClientId first_id() const { // of the highest of all
    const Client* first = highest([](const Client&) { return true; });
    return first == nullptr ? 0 : first->id;
  }
  // For those below this client, whose work is on the device or due at once.
  static Hold behind(const Client& higher, std::int64_t now_ns);
  // For those that wait and are not first.
  static Hold after(const Client& first, const Client& waiting) {
    return {.reason = first.priority == waiting.priority ? Reason::turn : Reason::behind, .by = first.id};
  }
  void hold(const Rows& rows, const Hold& why) { told_.say(rows, why); }
  void hold(const Client& client, const Hold& why) { told_.say(clients_.row(client), why); }
  template <class Why>
  void hold_waiting(Why why) {
    for (const Client& client : clients_.among(sets().waiting)) hold(client, why(client));
  }
  // The next moment at which some client's work ends, as far as is reckoned; kNever if none does.
  std::int64_t next_end_ns(std::int64_t now_ns) const { return clients_.next_end_ns(now_ns); }

  // What copies_that_matter() says has changed.
  void look_at_gates() { gates_known_ = false; }

  ClientTable& clients() { return clients_; }
  const ClientTable& clients() const { return clients_; }
  const Index::Sets& sets() const { return clients_.index().sets(); }
  const Options& options() const { return options_; }
  const Told& told() const { return told_; }

 private:
  void set_gates(Decisions& out);
  void grant_copies(std::int64_t now_ns, Decisions& out);
  Client* choose_again(std::int64_t now_ns);
  Client* not_to_starve();

  Options options_;
  ClientTable clients_;
  Told told_; // by row
  bool gates_known_ = true; // false: clients came or went, or copies came to matter
};

// Its name is one of policy_names(); nullptr for any other.
std::unique_ptr<Policy> make_policy(std::string_view name, const Options& options);
std::span<const std::string_view> policy_names();
// For people who gave another name: `unknown policy "best", use one of fifo, prio, ...`
std::string unknown_policy(std::string_view name);

} // namespace fikit::policy
