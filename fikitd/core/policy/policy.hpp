// The policy of one GPU, as dispatcher and simulator drive it: events go in through apply(), decisions come out of decide(). It has one
// LevelPolicy for each level whose gates are closed, and tells each of them what the others grant. So, in every policy, a decision about
// a client depends on what the clients below it were granted, and on nothing else that these report.
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
  using Make = std::function<std::unique_ptr<LevelPolicy>(const Options&)>; // makes the policy of one level
  Policy(Make make, const Options& options);

  // Takes note of what happened. The caller may apply several events before one decide(): decisions in between would rest on
  // a past that later events already contradict. False: the client is unknown, known already, or one too many.
  bool apply(const Event& event);

  // Gives the client another priority. Its gate counts as open: the next decide() closes it where that is due, and the client's launch
  // that stands there has to be reported as waiting once more. The policy forgets the client's grants and budget. False: the client is
  // unknown, measures, or has that priority already.
  bool change_priority(ClientId id, int priority, std::int64_t now_ns);

  // Tells each level's policy what clients of that level and above have reported of the GPU: device_of(level), level at most 9.
  // Nothing that a lower client reports of the GPU reaches decisions about clients above it.
  template <class DeviceOf>
  void know(DeviceOf device_of) {
    for (const auto& level : levels()) level->know(device_of(std::min(level->level(), LevelPolicy::kNoLevel - 1)));
  }
  // What the policy that decides about this level knows of the GPU; where no policy does, what the lowest level's knows.
  const Device& device(int level = LevelPolicy::kNoLevel) const;

  // What to do at now_ns. `out` is cleared first. No wake_at means: nothing changes until the next event.
  void decide(std::int64_t now_ns, Decisions& out);

  // Does the policy use the outlooks of events? If not, the predictor need not learn them.
  bool looks_ahead() const { return lowest().looks_ahead(); }

  // Read-only view, for accounting; nullptr when the client is unknown.
  const Client* client(ClientId id) const;
  // How many clients, or groups of clients in the index, the policy has looked at or reckoned a delay of since it was made: what
  // decisions cost, for tests.
  std::uint64_t looks() const;
  bool index_agrees() const;
  std::int64_t queue_free_ns() const { return lowest().queue_free_ns(); }

  // Why a client's launch stands at the gate, as the last decide() found; Reason::none: the launch came after that.
  WaitReason held(const Client& client) const { return home(client).held(client); }
  // Calls seen(client, why) for each client whose launch stands at the gate.
  template <class Seen>
  void each_held(Seen seen) const {
    for (const auto& level : levels()) level->each_held(seen);
  }

 private:
  using Level = std::unique_ptr<LevelPolicy>;
  std::span<const Level> levels() const { return {levels_.data(), count_}; }
  // The level's policy that knows all reports of all clients.
  LevelPolicy& lowest() const { return *levels_[count_ - 1]; }
  // The level's policy that decides about the client; the lowest one where the client's gate is open.
  LevelPolicy& home(const Client& client) const;
  bool add(const Event& event);
  void see_levels(std::int64_t now_ns);
  Level make_level(int priority, const LevelPolicy& below, std::int64_t now_ns) const;

  Make make_;
  Options options_;
  std::array<Level, LevelPolicy::kNoLevel> levels_; // the highest first; there is always one
  std::size_t count_ = 0;
  Decisions decided_; // by one level's policy
};

// name: one of policy_names(); nullptr for any other.
std::unique_ptr<Policy> make_policy(std::string_view name, const Options& options);
std::span<const std::string_view> policy_names();
// What a user reads who gave another name: `unknown policy "best", use one of fifo, prio, ...`
std::string unknown_policy(std::string_view name);

} // namespace fikit::policy
