// What every scheduling policy is: a pure state machine that decides about the clients of one level. Events go in through apply(),
// decisions come out of decide(). No clock (time is a field of the event), no thread, no input or output, no allocation after
// construction. Policy (policy.hpp) has one for each level whose gates are closed.
//
// Clients above the level are known by all that they report. Their requests are decided by another one, which says what it granted
// (give()). Clients below the level are known by what they were granted, and by nothing that they report but that it is over: so
// nothing that a lower client says can hold a higher one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "clients.hpp"
#include "device.hpp"
#include "events.hpp"
#include "wait_reasons.hpp"

namespace fikit::policy {

// What one decide() granted to a client.
struct Given {
  enum class Kind : std::uint8_t { launches, more_of_run, end_of_run, copy };
  Kind kind = Kind::launches;
  ClientId client = 0;
  std::uint32_t request = 0;
  Launches granted;             // launches; more_of_run: so many more; copy: how long it takes
  std::int64_t charged_ns = 0;  // device time that those above it were charged for
  Engine engine = Engine::compute;
};

class LevelPolicy {
 public:
  explicit LevelPolicy(const Options& options) : options_(options), clients_(options.lease_ns) {}
  virtual ~LevelPolicy() = default;
  LevelPolicy(const LevelPolicy&) = delete;
  LevelPolicy& operator=(const LevelPolicy&) = delete;

  // It decides about clients of this priority from now on; kNoLevel: about nobody, and all are above it.
  static constexpr int kNoLevel = 10;
  void set_level(int level);
  int level() const { return level_; }

  // Knows from now on all that another one of its kind does, of a higher level: nothing of that is a lower client's word.
  virtual void learn(const LevelPolicy& higher);

  // Above all others there are: who is there, whose gate is closed, and of those of its level and above what they have launched and is not over.
  void begin(const LevelPolicy& lower, std::int64_t now_ns);

  // slot: of a client that is added; kMaxClients: any that is free. See Policy.
  bool apply(const Event& event, std::size_t slot = kMaxClients);
  // What another level's policy granted just now.
  void give(const Given& given, std::int64_t now_ns);

  // The client goes, and comes again with this priority.
  void change_priority(const Client& client, int priority, std::int64_t now_ns);
  // Of a client of its level or above: its work that is not over, as another one knew it.
  void take_over(const Client& known, std::int64_t now_ns);

  // Of the GPU, from reports of clients of its level and above and of no others.
  void know(const Device& device) { device_ = device; }
  const Device& device() const { return device_; }

  // What to do at now_ns: gates of all clients, the rest for those of its level. `out` is cleared first.
  void decide(std::int64_t now_ns, Decisions& out);
  std::span<const Given> given() const { return {given_.data(), given_count_}; } // by the last decide()

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
  WaitReason held(const Client& client) const { return wait_reasons_.of(clients_.row(client)); }
  // seen(client, why) of each that stands there.
  template <class Seen>
  void each_held(Seen seen) const {
    wait_reasons_.each(clients_.index().at_gate(), [&](const ClientSet& rows, const WaitReason& why) {
      for (const Client& client : clients_.among(rows)) seen(client, why);
    });
  }

 protected:
  static constexpr std::int64_t kUsualGuessNs = 100'000; // of a kernel's length, where nobody knows it

  // Are clients held at all for the sake of those that outrank them?
  virtual bool gates() const { return true; }
  // What just happened to a client of its level or above it, after it was taken note of.
  virtual void noted(const Event&, const Client&) {}
  // The client is about to be given that by another level.
  virtual void noted_given(const Given&, const Client&, std::int64_t) {}
  // A client below its level says that a grant of its is over.
  virtual void noted_done_below(const Event&) {}
  // For how much device time those above a client are asked when it is granted that.
  virtual std::int64_t charged_ns(const Client&, const Launches& granted) const {
    return granted.work_ns < 0 ? kUsualGuessNs : granted.work_ns;
  }
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

  // Of all that wait and need not wait for their kernel's sake, the highest, and of these the longest waiting. Another level may
  // decide about it (waits_here): it is not overtaken.
  Client* first_waiting(std::int64_t now_ns);
  // Whoever keeps this one's kernel, which fills no gap, from going: above it, and not idle for idle_after_ns yet.
  const Client* keeps_from_gap(const Client& client, std::int64_t now_ns) const;
  // When that may be over for one of those that wait; kNever if for none.
  std::int64_t next_idle_ns(std::int64_t now_ns) const;
  // The highest client for which this holds, measuring ones left out: if it does not outrank somebody, none of them does.
  template <class WaitBook>
  const Client* highest(WaitBook holds) const {
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
  static WaitReason behind(const Client& higher, std::int64_t now_ns);
  // For those that wait and are not first.
  static WaitReason after(const Client& first, const Client& waiting) {
    return {.reason = first.priority == waiting.priority ? Reason::turn : Reason::behind, .by = first.id};
  }
  void hold(const ClientSet& rows, const WaitReason& why) { wait_reasons_.say(rows, why); }
  void hold(const Client& client, const WaitReason& why) { wait_reasons_.say(clients_.row(client), why); }
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
  const WaitReasons& told() const { return wait_reasons_; }

 private:
  void set_gates(std::int64_t now_ns, Decisions& out);
  void grant_copies(std::int64_t now_ns, Decisions& out);
  Client* choose_again(std::int64_t now_ns);
  Client* not_to_starve(std::int64_t now_ns);

  bool add(const Event& event, std::size_t slot);
  bool apply_below(const Event& event, Client& client);
  void apply_known(const Event& event, Client& client);
  void wait(const Event& event, Client& client);
  void grant(Client& client, const Launches& granted, std::int64_t now_ns, Decisions& out);
  void add_given(const Given& given) { given_[given_count_++] = given; }

  Options options_;
  int level_ = kNoLevel;
  Device device_;
  ClientTable clients_;
  WaitReasons wait_reasons_; // by row
  std::array<Given, 3 * kMaxClients> given_{};
  std::size_t given_count_ = 0;
  bool gates_known_ = true; // false: clients came or went, or copies came to matter
};

} // namespace fikit::policy
