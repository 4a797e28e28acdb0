// What a client's events are put down as: why it waited, for the report, and its schedule, for a picture of it.
#include <algorithm>

#include "client.hpp"

namespace fikit::dispatcher {

// view: as the policy sees the client, with this launch.
void Client::note_launch(const Report& report, std::int64_t t_ns, std::int64_t duration_ns, const policy::Client* view) {
  const bool mine = report.kind == FIKIT_ENTRY_GRANTED && static_cast<std::uint32_t>(report.value) == granted_;
  // At a gate that has opened meanwhile, launches do not say which request they were.
  if (mine || report.kind == FIKIT_ENTRY_EXPIRED || !closed_)
    holds_.passed(std::clamp(report.t_ns, t_ns, t_ns + lease_ns_)); // since this round began, perhaps
  if (view == nullptr) return;
  if (report.kind == FIKIT_ENTRY_LAUNCH && view->stood_ns > 0) {
    holds_.stood(view->stood_behind, t_ns, view->stood_ns);
    stood_.counted(view->stood_until_ns);
  }
  const bool known = duration_ns >= 0 && !view->progress.uncertain();
  journal_.add({.t_ns = t_ns,
                .length_ns = duration_ns,
                .predicted_ns = known ? view->progress.finish_ns() : policy::kUnknown,
                .by = 0,
                .slot = static_cast<std::uint16_t>(std::min<std::uint32_t>(report.slot, FIKIT_SLOTS)),
                .kind = JournalKind::launch,
                .reason = 0});
}

void Client::note_gap(std::int64_t t_ns, std::int64_t idle_ns, std::int64_t predicted_ns) {
  journal_.add({.t_ns = t_ns,
                .length_ns = idle_ns,
                .predicted_ns = predicted_ns,
                .by = 0,
                .slot = 0,
                .kind = JournalKind::gap,
                .reason = 0});
}

void Client::note_grant(std::int64_t now_ns) {
  journal_.add({.t_ns = now_ns,
                .length_ns = 0,
                .predicted_ns = 0,
                .by = 0,
                .slot = static_cast<std::uint16_t>(holds_.slot()),
                .kind = JournalKind::grant,
                .reason = 0});
}

void Client::note_drain(std::int64_t t_ns) {
  journal_.add({.t_ns = t_ns, .length_ns = 0, .predicted_ns = 0, .by = 0, .slot = 0, .kind = JournalKind::drain, .reason = 0});
}

// No sooner than what was complete before.
void Client::note_ran(std::int64_t length_ns, std::int64_t until_ns) {
  const Ran ran{.from_ns = std::max(until_ns - length_ns, ran_until_ns_), .until_ns = until_ns};
  if (length_ns <= 0 || ran.from_ns >= ran.until_ns) return;
  ran_until_ns_ = until_ns;
  if (ran_count_ < ran_.size()) ran_[ran_count_++] = ran;
}

// Reckoning gives work up that is a lease behind; a mark that is not reached knows better.
std::int64_t Client::there_until_ns(const policy::Client& view) const {
  return std::max(view.progress.finish_ns(), marks_.stood_ns());
}

void Client::lower_ran(ClientId lower, const Ran& ran, const policy::Policy& policy) {
  const policy::Client* view = policy.client(id_);
  if (view == nullptr) return;
  const std::int64_t stood_ns = stood_.beside(ran, there_until_ns(*view));
  if (stood_ns > 0) holds_.stood(lower, ran.until_ns - stood_ns, stood_ns);
}

std::vector<Stats::Held> Client::held_now(std::int64_t now_ns) const {
  std::vector<Stats::Held> held;
  for (const HoldSum& sum : holds_.sums(now_ns)) {
    Stats::Held& entry = held.emplace_back();
    entry.sum = sum;
    const predictor::Identity kernel = identity(sum.slot);
    if (const predictor::Kernel* known = measured_.kernel(kernel)) entry.kernel = known->name;
    const predictor::Cost* cost = profile_.cost(kernel) != nullptr ? profile_.cost(kernel) : measured_.cost(kernel);
    if (cost != nullptr && cost->duration.count() > 0) entry.p90_ns = cost->duration.quantile_ns(0.9);
  }
  return held;
}

std::vector<JournalEvent> Client::events(std::int64_t now_ns) const {
  std::vector<JournalEvent> events = journal_.events();
  const std::optional<JournalEvent> wait = holds_.going_on(now_ns);
  if (wait && journal_.keeps()) events.push_back(*wait);
  return events;
}

std::vector<std::string> Client::kernel_names() const {
  std::vector<std::string> names(identities_.size());
  for (std::size_t slot = 0; slot < names.size(); ++slot)
    if (const predictor::Kernel* known = measured_.kernel(identities_[slot])) names[slot] = known->name;
  return names;
}

} // namespace fikit::dispatcher
