#include "policy.hpp"

#include <algorithm>
#include <utility>

namespace fikit::policy {

Policy::Policy(Make make, const Options& options) : make_(std::move(make)), options_(options) {
  levels_[0] = make_(options_);
  count_ = 1;
}

bool Policy::apply(const Event& event) {
  if (event.kind == EventKind::client_added) return add(event);
  bool known = false;
  for (const Level& level : levels()) known = level->apply(event);
  if (event.kind == EventKind::client_removed && known) see_levels(event.time_ns);
  return known;
}

bool Policy::add(const Event& event) {
  if (!lowest().apply(event)) return false;
  const std::size_t slot = lowest().client(event.client)->slot; // all levels' policies use the same
  for (const Level& level : levels())
    if (level.get() != &lowest()) level->apply(event, slot);
  see_levels(event.time_ns);
  return true;
}

bool Policy::change_priority(ClientId id, int priority, std::int64_t now_ns) {
  const Client* known = lowest().client(id);
  if (known == nullptr || known->measuring || known->priority == priority) return false;
  const Client before = *known;
  for (const Level& level : levels()) level->change_priority(before, priority, now_ns);
  see_levels(now_ns);
  for (const Level& level : levels()) level->take_over(before, now_ns);
  return true;
}

// Keeps one level's policy for each priority below the highest; if there is no such priority, only the one that knows most.
void Policy::see_levels(std::int64_t now_ns) {
  std::array<bool, LevelPolicy::kNoLevel> closed{};
  int highest = LevelPolicy::kNoLevel;
  for (const Client& client : lowest().all()) { // the highest first
    if (client.measuring) continue;
    highest = std::min(highest, client.priority);
    closed[static_cast<std::size_t>(client.priority)] = client.priority > highest;
  }
  const auto first = std::ranges::find(closed, true);
  std::array<Level, LevelPolicy::kNoLevel> before = std::exchange(levels_, {});
  const std::span<Level> known = std::span(before).first(std::exchange(count_, 0));
  LevelPolicy& lowest = *known.back();
  if (first == closed.end()) {
    if (lowest.level() != LevelPolicy::kNoLevel) lowest.set_level(LevelPolicy::kNoLevel);
    levels_[count_++] = std::move(known.back());
    return;
  }
  if (lowest.level() == LevelPolicy::kNoLevel) lowest.set_level(static_cast<int>(first - closed.begin())); // it is the only level's policy
  for (int priority = 0; priority < LevelPolicy::kNoLevel; ++priority) {
    if (!closed[static_cast<std::size_t>(priority)]) continue;
    const auto same = std::ranges::find_if(known, [priority](const Level& l) { return l != nullptr && l->level() == priority; });
    const auto below = std::ranges::find_if(known, [priority](const Level& l) { return l != nullptr && l->level() > priority; });
    Level level = same != known.end() ? std::move(*same) : make_level(priority, below != known.end() ? **below : lowest, now_ns);
    levels_[count_++] = std::move(level);
  }
}

// A new level's policy learns from that of the level above, which knows no report of a client below its own level. If there is none above,
// it begins with what the next one below knows, which has heard the fewest clients: which clients there are, and the unfinished work of
// those that the new policy may hear.
Policy::Level Policy::make_level(int priority, const LevelPolicy& below, std::int64_t now_ns) const {
  Level made = make_(options_);
  if (count_ > 0) made->learn(*levels_[count_ - 1]), made->know(levels_[count_ - 1]->device());
  made->set_level(priority);
  if (count_ == 0) made->begin(below, now_ns);
  return made;
}

LevelPolicy& Policy::home(const Client& client) const {
  for (const Level& level : levels())
    if (client.closed && level->level() == client.priority) return *level;
  return lowest();
}

void Policy::decide(std::int64_t now_ns, Decisions& out) {
  if (count_ == 1) return lowest().decide(now_ns, out);
  out.clear();
  std::array<std::int64_t, LevelPolicy::kNoLevel> wake_ns{};
  std::size_t next = 0;
  while (next < count_) {
    LevelPolicy& level = *levels_[next];
    level.decide(now_ns, decided_);
    wake_ns[next] = kNever;
    for (const Decision& decision : decided_.items()) {
      if (decision.kind == DecisionKind::wake_at) wake_ns[next] = decision.time_ns;
      else if (&level == &home(*level.client(decision.client))) out.add(decision); // each of them decides about all gates
    }
    for (const Given& given : level.given())
      for (const Level& other : levels())
        if (other.get() != &level) other->give(given, now_ns);
    // The policies of the levels above decide again: their clients may wait for something else now.
    const bool heard = next > 0 && !level.given().empty();
    next = heard ? 0 : next + 1;
  }
  const std::int64_t first_ns = *std::min_element(wake_ns.begin(), wake_ns.begin() + static_cast<std::ptrdiff_t>(count_));
  if (first_ns != kNever) out.add({.kind = DecisionKind::wake_at, .time_ns = first_ns});
}

const Client* Policy::client(ClientId id) const {
  const Client* known = lowest().client(id);
  if (known == nullptr || count_ == 1) return known;
  const LevelPolicy& home = this->home(*known);
  return &home == &lowest() ? known : home.client(id);
}

const Device& Policy::device(int level) const {
  for (const Level& one : levels())
    if (one->level() == level) return one->device();
  return lowest().device();
}

std::uint64_t Policy::looks() const {
  std::uint64_t looks = 0;
  for (const Level& level : levels()) looks += level->looks();
  return looks;
}

bool Policy::index_agrees() const {
  return std::ranges::all_of(levels(), [](const Level& level) { return level->index_agrees(); });
}

} // namespace fikit::policy
