// A policy as others drive it: events go in through apply(), decisions come out of decide(). It has one LevelPolicy for each level
// whose gates are closed, and each of these is told what the others grant. So whatever a client reports, decisions about clients
// above it depend on no more of it than what it was granted, in every policy there is.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "policy/base/level_policy.hpp"

namespace fikit::policy {

class Policy {
 public:
  using Make = std::function<std::unique_ptr<LevelPolicy>(const Options&)>; // one for each level
  Policy(Make make, const Options& options);

  // Takes note of what happened. Several events may be applied before one decide(): decisions in between would rest on
  // a past that later events already contradict. False: the client is unknown, known already, or one too many.
  bool apply(const Event& event);

  // The client has another priority from now on. Its gate is open: if it is to be closed, the next decide() says so, and what stands
  // there is said to wait anew. Nothing is known any more of what it was granted, or of its budget. False: it is unknown, measures,
  // or has that priority.
  bool change_priority(ClientId id, int priority, std::int64_t now_ns);

  // Tells each level what is known of the GPU by the reports of clients of that level and above: device_of(level), level at most 9.
  // Nothing that a lower client reports of the GPU reaches decisions about those above it.
  template <class DeviceOf>
  void know(DeviceOf device_of) {
    for (const auto& level : levels()) level->know(device_of(std::min(level->level(), LevelPolicy::kNoLevel - 1)));
  }
  // What is known where clients of this level are decided about; the lowest where none are.
  const Device& device(int level = LevelPolicy::kNoLevel) const;

  // What to do at now_ns. `out` is cleared first. No wake_at means: nothing changes until the next event.
  void decide(std::int64_t now_ns, Decisions& out);

  // Does it use the outlooks of events? For others nobody needs to learn them.
  bool looks_ahead() const { return lowest().looks_ahead(); }

  // Read-only view, for accounting; nullptr when the client is unknown.
  const Client* client(ClientId id) const;
  // How many clients, or groups of them in the index, were looked at, or asked, since it was made: what its decisions cost, for
  // tests.
  std::uint64_t looks() const;
  bool index_agrees() const;
  std::int64_t queue_free_ns() const { return lowest().queue_free_ns(); }

  // Why a client stands at the gate, as the last decision said; Reason::none: it came later.
  WaitReason held(const Client& client) const { return home(client).held(client); }
  // seen(client, why) of each that stands there.
  template <class Seen>
  void each_held(Seen seen) const {
    for (const auto& level : levels()) level->each_held(seen);
  }

 private:
  using Level = std::unique_ptr<LevelPolicy>;
  std::span<const Level> levels() const { return {levels_.data(), count_}; }
  // Which knows all clients by all that they report.
  LevelPolicy& lowest() const { return *levels_[count_ - 1]; }
  // Which decides about a client; the lowest, where its gate is open.
  LevelPolicy& home(const Client& client) const;
  bool add(const Event& event);
  void see_levels(std::int64_t now_ns);
  Level make_level(int priority, const LevelPolicy& below, std::int64_t now_ns) const;

  Make make_;
  Options options_;
  std::array<Level, LevelPolicy::kNoLevel> levels_; // the highest first; there is always one
  std::size_t count_ = 0;
  Decisions decided_; // by one level
};

// Its name is one of policy_names(); nullptr for any other.
std::unique_ptr<Policy> make_policy(std::string_view name, const Options& options);
std::span<const std::string_view> policy_names();
// For people who gave another name: `unknown policy "best", use one of fifo, prio, ...`
std::string unknown_policy(std::string_view name);

} // namespace fikit::policy
