// What is kept of a client's events: why it waited and where its time went, for the report, and its schedule, for the trace.
#include <algorithm>

#include "client_tracker.hpp"

namespace fikit::tracking {

// A gap ends at a request, or at the launch where the gate opened meanwhile: at the first of the two.
void ClientTracker::end_gap(std::int64_t t_ns, const policy::Client* view) {
  if (view == nullptr || launches_ == gap_ended_) return;
  gap_ended_ = launches_;
  if (!view->progress.uncertain()) idle_.add({.launches = launches_, .since_ns = view->progress.dry_ns()});
  const bool known = !view->progress.uncertain() && t_ns >= view->progress.dry_ns();
  const std::int64_t idle_ns = known ? t_ns - view->progress.dry_ns() : -1;
  if (known) certain_ = launches_;
  // A measured run has no profile to be compared with.
  const bool boundary = idle_ns >= predictor::kBoundaryNs || (!measure_ && span_alone_.boundary_follows());
  if (boundary) paused(std::max<std::int64_t>(idle_ns, 0));
  span_alone_.gap_ended(boundary);
  // A pause of the program is no gap that lower jobs were offered.
  gaps_.ended(view->gap_ns, idle_ns > kPauseNs ? -1 : idle_ns, min_gap_ns_);
  if (std::max(idle_ns, view->gap_ns) > min_gap_ns_ && known) note_gap(t_ns - idle_ns, idle_ns, view->gap_ns);
}

// A pause is no part of the client's span, and what its siblings launched in the pause is not either.
void ClientTracker::paused(std::int64_t idle_ns) {
  paused_ns_ += idle_ns;
  if (siblings_ != nullptr && together_.begin_ns >= 0)
    together_.begin_ns += std::min(siblings_->work_ns - together_.end_ns, static_cast<double>(idle_ns));
}

void ClientTracker::count_kernel() {
  ++kernels_;
  ++traffic_.kernels;
  if (siblings_ != nullptr) ++siblings_->kernels;
}

void ClientTracker::note_under_way(std::uint64_t launches) {
  if (launches == under_way_) return; // a client that has left must not touch traffic_, which may be gone
  const std::uint64_t more = launches - under_way_; // a decrease wraps, and so do the sums: right modulo 2^64
  under_way_ = launches;
  traffic_.under_way += more;
  if (siblings_ != nullptr) siblings_->under_way += more;
}

OthersWork ClientTracker::others_work() const {
  if (siblings_ == nullptr) return {.kernels = traffic_.kernels - kernels_, .under_way = traffic_.under_way != under_way_};
  return {.kernels = traffic_.kernels - siblings_->kernels, .under_way = traffic_.under_way != siblings_->under_way};
}

void ClientTracker::note_siblings(std::int64_t duration_ns) {
  if (together_.begin_ns < 0) together_.begin_ns = siblings_->work_ns;
  siblings_->work_ns += static_cast<double>(std::max<std::int64_t>(duration_ns, 0));
  together_.end_ns = siblings_->work_ns;
}

// view: the policy's view of the client after this launch.
void ClientTracker::note_launch(const Report& report, std::int64_t t_ns, std::int64_t duration_ns, const policy::Client* view) {
  const bool mine = report.kind == FIKIT_ENTRY_GRANTED && static_cast<std::uint32_t>(report.value) == granted_;
  // A launch through a gate that has opened meanwhile does not say which request it was.
  if (mine || report.kind == FIKIT_ENTRY_EXPIRED || !closed_)
    wait_book_.passed(std::clamp(report.t_ns, t_ns, t_ns + lease_ns_)); // it may have come after this round began
  if (view == nullptr) return;
  if (report.kind == FIKIT_ENTRY_LAUNCH && view->stood_ns > 0) {
    wait_book_.stood(view->stood_behind, t_ns, view->stood_ns);
    interference_.counted(view->stood_until_ns);
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

void ClientTracker::note_gap(std::int64_t t_ns, std::int64_t idle_ns, std::int64_t predicted_ns) {
  journal_.add({.t_ns = t_ns,
                .length_ns = idle_ns,
                .predicted_ns = predicted_ns,
                .by = 0,
                .slot = 0,
                .kind = JournalKind::gap,
                .reason = 0});
}

void ClientTracker::note_grant(std::int64_t now_ns) {
  journal_.add({.t_ns = now_ns,
                .length_ns = 0,
                .predicted_ns = 0,
                .by = 0,
                .slot = static_cast<std::uint16_t>(wait_book_.slot()),
                .kind = JournalKind::grant,
                .reason = 0});
}

void ClientTracker::note_drain(std::int64_t t_ns) {
  journal_.add({.t_ns = t_ns, .length_ns = 0, .predicted_ns = 0, .by = 0, .slot = 0, .kind = JournalKind::drain, .reason = 0});
}

// Launches that one look finds complete ran one after the other, and after those that take_ran() has already handed out.
void ClientTracker::note_ran(std::size_t count, std::int64_t until_ns) {
  if (count == 0) return;
  std::int64_t from_ns = until_ns - outstanding_.length_ns(count);
  std::int64_t before_ns = from_ns;
  for (std::size_t i = ran_count_; i > 0 && ran_[i - 1].until_ns > before_ns; --i) {
    const std::int64_t sooner_ns = ran_[i - 1].until_ns - before_ns;
    before_ns = ran_[i - 1].from_ns -= sooner_ns;
    ran_[i - 1].until_ns -= sooner_ns;
  }
  for (; count > 0; --count) {
    const Outstanding::Work work = outstanding_.take();
    const Ran ran{.launched_ns = work.launched_ns, .from_ns = from_ns, .until_ns = from_ns + work.length_ns, .last = count == 1};
    from_ns = ran.until_ns;
    if (ran_count_ < ran_.size()) ran_[ran_count_++] = ran;
  }
}

std::span<const Ran> ClientTracker::take_ran() {
  const auto ran = std::span(ran_).first(std::exchange(ran_count_, 0));
  for (Ran& each : ran) {
    each.from_ns = std::max(each.from_ns, ran_until_ns_);
    each.until_ns = ran_until_ns_ = std::max(each.until_ns, each.from_ns);
  }
  return ran;
}

void ClientTracker::lower_ran(ClientId lower, std::span<const Ran> ran) {
  Interference::Time together; // delays with no kernel of this client between them count as one
  const auto put_down = [&] {
    if (together.length_ns > 0) wait_book_.stood(lower, together.until_ns - together.length_ns, together.length_ns);
  };
  interference_.beside(ran, [&](const Interference::Time& stood) {
    if (stood.length_ns == 0) return;
    if (stood.until_ns - stood.length_ns > together.until_ns) {
      put_down();
      together = stood;
    } else {
      together.length_ns += stood.length_ns;
      together.until_ns = stood.until_ns;
    }
  });
  put_down();
}

std::vector<Stats::Held> ClientTracker::held_now(std::int64_t now_ns) const {
  std::vector<Stats::Held> held;
  for (const WaitSum& sum : wait_book_.sums(now_ns)) {
    Stats::Held& entry = held.emplace_back();
    entry.sum = sum;
    const predictor::Identity kernel = identity(sum.slot);
    if (const predictor::Kernel* known = measured_.alone.kernel(kernel)) entry.kernel = known->name;
    if (const predictor::Cost* cost = this->cost(kernel)) entry.p90_ns = cost->duration.quantile_ns(0.9);
  }
  return held;
}

std::vector<JournalEvent> ClientTracker::events(std::int64_t now_ns) const {
  std::vector<JournalEvent> events = journal_.events();
  const std::optional<JournalEvent> wait = wait_book_.going_on(now_ns);
  if (wait && journal_.keeps()) events.push_back(*wait);
  return events;
}

std::vector<std::string> ClientTracker::kernel_names() const {
  std::vector<std::string> names(identities_.size());
  for (std::size_t slot = 0; slot < names.size(); ++slot)
    if (const predictor::Kernel* known = measured_.alone.kernel(identities_[slot])) names[slot] = known->name;
  return names;
}

} // namespace fikit::tracking
