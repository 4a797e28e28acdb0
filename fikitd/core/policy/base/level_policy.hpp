// What every scheduling policy is: a pure state machine that decides about the clients of one level. Events go in through apply(),
// decisions come out of decide(). No clock (time is a field of the event), no thread, no input or output, no allocation after
// construction. Policy (policy.hpp) has one for each level whose gates are closed.
//
// It knows all reports of the clients above its level. Another level's policy decides about these, and tells it what that granted
// (give()). Of the clients below its level it knows what they were granted, and of their reports only that a grant is over: so
// nothing that a lower client reports can hold a higher one.
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
  std::int64_t charged_ns = 0;  // device time for which the clients above it were charged
  Engine engine = Engine::compute;
};

class LevelPolicy {
 public:
  explicit LevelPolicy(const Options& options) : options_(options), clients_(options.lease_ns) {}
  virtual ~LevelPolicy() = default;
  LevelPolicy(const LevelPolicy&) = delete;
  LevelPolicy& operator=(const LevelPolicy&) = delete;

  // From now on this policy decides about clients of this priority; kNoLevel: about no client, and all clients are above its level.
  static constexpr int kNoLevel = 10;
  void set_level(int level);
  int level() const { return level_; }

  // Takes over what a higher level's policy of the same kind knows: that rests on no report of a client below that level.
  virtual void learn(const LevelPolicy& higher);

  // Begins as a new level, with what the policy of the level below knows: which clients there are, which gates are closed, and which
  // launches of clients of the new level and above are not complete.
  void begin(const LevelPolicy& lower, std::int64_t now_ns);

  // slot: of a client that is added; kMaxClients: any that is free. See Policy.
  bool apply(const Event& event, std::size_t slot = kMaxClients);
  // What another level's policy granted just now.
  void give(const Given& given, std::int64_t now_ns);

  // Removes the client and adds it again with this priority.
  void change_priority(const Client& client, int priority, std::int64_t now_ns);
  // Takes over the unfinished work of a client of its level or above, as another level's policy knew it.
  void take_over(const Client& known, std::int64_t now_ns);

  // What is known of the GPU, from reports of clients of its level and above and of no others.
  void know(const Device& device) { device_ = device; }
  const Device& device() const { return device_; }

  // What to do at now_ns: which gates of all clients to open and close, and the rest for clients of its level. `out` is cleared first.
  void decide(std::int64_t now_ns, Decisions& out);
  std::span<const Given> given() const { return {given_.data(), given_count_}; } // by the last decide()

  // Does the policy use the outlooks of events? If not, the predictor need not learn them.
  virtual bool looks_ahead() const { return false; }

  // Read-only view, for accounting; nullptr when the client is unknown.
  const Client* client(ClientId id) const { return clients_.find(id); }
  std::span<const Client> all() const { return clients_.span(); }
  // How many clients, or groups of clients in the index, the policy has looked at or reckoned a delay of since it was made: what
  // decisions cost, for tests.
  std::uint64_t looks() const { return clients_.looks(); }
  bool index_agrees() const { return clients_.index_agrees(); }
  std::int64_t queue_free_ns() const { return clients_.queue_free_ns(); }

  // Why a client's launch stands at the gate, as the last decide() found; Reason::none: the launch came after that.
  WaitReason held(const Client& client) const { return wait_reasons_.of(clients_.row(client)); }
  // Calls seen(client, why) for each client whose launch stands at the gate.
  template <class Seen>
  void each_held(Seen seen) const {
    wait_reasons_.each(clients_.index().at_gate(), [&](const ClientSet& rows, const WaitReason& why) {
      for (const Client& client : clients_.among(rows)) seen(client, why);
    });
  }

 protected:
  static constexpr std::int64_t kUsualGuessNs = 100'000; // of a kernel's length, where nobody knows it

  // Does the policy hold clients at all for the sake of clients that outrank them?
  virtual bool gates() const { return true; }
  // An event of a client of the level or above it; the client table has taken note of it already.
  virtual void noted(const Event&, const Client&) {}
  // Another level's policy is about to give the client that.
  virtual void noted_given(const Given&, const Client&, std::int64_t) {}
  // A client below the level reports that one of its grants is over.
  virtual void noted_done_below(const Event&) {}
  // The device time for which the clients above a client are charged when it is granted these launches.
  virtual std::int64_t charged_ns(const Client&, const Launches& granted) const {
    return granted.work_ns < 0 ? kUsualGuessNs : granted.work_ns;
  }
  // The client whose request is granted next, or nullptr. decide() calls it until it returns nullptr; a grant counts as in flight at once.
  // Before choose() returns nullptr it has noted for each client that waits why it does (hold).
  virtual Client* choose(std::int64_t now_ns) = 0;
  // What the grant of a chosen client covers: the launch that waits, and launches - 1 of those that follow it.
  virtual Launches granted(const Client& client) const { return only_one(client); }
  static Launches only_one(const Client& client) { return {.launches = 1, .work_ns = client.waiting_duration_ns}; }
  // For which copy engines this held client has to ask, because its copies there may delay a client above it.
  virtual CopyEngines copies_that_matter(const Client&) const { return {}; }
  // The client whose copy, of those that stand at the gate, is granted next, or nullptr; as choose().
  virtual Client* choose_copy(std::int64_t) { return nullptr; }
  // A client whose run is lengthened, and to how much; as choose().
  struct Extension {
    Client* client = nullptr;
    Launches to;
  };
  virtual Extension extended(std::int64_t) { return {}; }
  // A client whose run is ended, or nullptr; decide() calls it until it returns nullptr.
  virtual Client* overstaying(std::int64_t) { return nullptr; }
  // When choose() may answer differently without any event; kNever if no such moment.
  virtual std::int64_t next_change_ns(std::int64_t now_ns) const = 0;

  // Of the clients that wait and that no client keeps from going by keeps_from_gap(), the highest one; of equals the one that has waited
  // longest. If another level's policy decides about it (waits_here), no client below may overtake it all the same.
  Client* first_waiting(std::int64_t now_ns);
  // A client above this one that has not yet been idle for idle_after_ns, where this one's kernel fills no gap (collective, cooperative)
  // and so has to wait for that; else nullptr.
  const Client* keeps_from_gap(const Client& client, std::int64_t now_ns) const;
  // The first moment at which keeps_from_gap() may let a waiting client go; kNever if it holds none.
  std::int64_t next_idle_ns(std::int64_t now_ns) const;
  // The highest client for which holds(client) is true, measuring clients left out: if this one does not outrank some client, no client
  // for which it is true does.
  template <class Predicate>
  const Client* highest(Predicate holds) const {
    const Client* best = nullptr;
    for (const Client& client : clients_.all())
      if (!client.measuring && (best == nullptr || client.priority < best->priority) && holds(client)) best = &client;
    return best;
  }
  ClientId first_id() const { // of the highest client
    const Client* first = highest([](const Client&) { return true; });
    return first == nullptr ? 0 : first->id;
  }
  // Why clients below this one wait, whose work is on the device or due at once.
  static WaitReason behind(const Client& higher, std::int64_t now_ns);
  // Why a client waits that is not the first of those that wait.
  static WaitReason after(const Client& first, const Client& waiting) {
    return {.reason = first.priority == waiting.priority ? Reason::turn : Reason::behind, .by = first.id};
  }
  void hold(const ClientSet& rows, const WaitReason& why) { wait_reasons_.say(rows, why); }
  void hold(const Client& client, const WaitReason& why) { wait_reasons_.say(clients_.row(client), why); }
  template <class Why>
  void hold_waiting(Why why) {
    for (const Client& client : clients_.among(sets().waiting)) hold(client, why(client));
  }
  // The next moment at which the work of a client ends, as reckoned; kNever if there is none.
  std::int64_t next_end_ns(std::int64_t now_ns) const { return clients_.next_end_ns(now_ns); }

  // To be called when copies_that_matter() returns something else than before.
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
