#include "client.hpp"

#include <algorithm>

namespace fikit::dispatcher {
namespace {

constexpr int kBatch = 512; // reports of one client per poll, so that a busy one does not hold up the others

// Longer idle times are pauses of the program (start-up, compilation, input): nobody offered them to others as gaps.
constexpr std::int64_t kPauseNs = 50'000'000;

using policy::EventKind;

} // namespace

Client::Client(ClientId id, int memfd, int priority, bool measure, const policy::Options& options, std::int64_t now_ns,
               Traffic& traffic, std::shared_ptr<Gang> gang, std::shared_ptr<Siblings> siblings, std::size_t journal,
               std::shared_ptr<predictor::Room> room)
    : id_(id),
      priority_(priority),
      measure_(measure),
      lease_ns_(options.lease_ns),
      epsilon_ns_(options.epsilon_ns),
      traffic_(traffic),
      page_(memfd),
      last_report_ns_(now_ns),
      identities_(FIKIT_SLOTS),
      nameless_(FIKIT_SLOTS),
      foresight_(options.tuning, traffic.kernels),
      siblings_(siblings),
      exclusives_(std::move(gang), std::move(siblings), options.lease_ns),
      solo_(FIKIT_SLOTS),
      room_(std::move(room)),
      journal_(claim_.more(journal * sizeof(JournalEvent)) ? journal : 0),
      holds_(id, journal_) {
  for (predictor::Model* model : {&measured_.alone, &measured_.beside}) model->keep_within(room_);
  foresight_.keep_within(room_);
}

void Client::resume() {
  page_.open_gate();
  page_.end_run();
  ring_.begin_at_end(page_.raw());
  page_.set_ring_tail(ring_.tail());
  launches_ = page_.launches();
  log_.resume_at(launches_);
}

bool Client::begin_round(std::int64_t now_ns, policy::Policy& policy) {
  first_ns_ = now_ns;
  taken_ = 0;
  return look_at_marks(now_ns, policy); // before the launches that came after them
}

std::int64_t Client::next_report_ns(std::int64_t now_ns) {
  if (taken_ == kBatch) return policy::kNever;
  if (!has_next_) has_next_ = ring_.next(page_.raw(), now_ns, next_);
  if (!has_next_ || waits_for_description(now_ns)) return policy::kNever;
  return time_of(next_, now_ns);
}

// A liar's times decide only when it is its turn.
std::int64_t Client::time_of(const Report& report, std::int64_t now_ns) const {
  if (report.kind == FIKIT_ENTRY_SAMPLE || report.kind == FIKIT_ENTRY_GAP) return last_report_ns_; // theirs is not said
  return std::clamp(report.t_ns, last_report_ns_, std::max(now_ns, last_report_ns_));
}

void Client::take_report(std::int64_t now_ns, policy::Policy& policy) {
  if (ring_.take_lost()) {
    launches_ = page_.counters(now_ns).launches;
    log_.resume_at(launches_);
    if (foresees(policy)) foresight_.missed(last_report_ns_);
  }
  take(next_, now_ns, policy);
  has_next_ = false;
  ++taken_;
}

bool Client::end_round(std::int64_t now_ns, policy::Policy& policy) {
  bool any = taken_ > 0;
  if (any) page_.set_ring_tail(ring_.tail());
  any = look_at_marks(now_ns, policy) || any;
  any = look_at_gang(now_ns, policy) || any;
  undescribed_ = waits_for_description(now_ns);
  if (!undescribed_) any = look_at_request(now_ns, policy) || any; // the request after the launches that came before it
  if (any) heard_ns_ = now_ns;
  return any;
}

bool Client::poll(std::int64_t now_ns, policy::Policy& policy) {
  patient_ = false;
  const bool marks = begin_round(now_ns, policy);
  while (next_report_ns(now_ns) != policy::kNever) take_report(now_ns, policy);
  const bool any = end_round(now_ns, policy);
  patient_ = true;
  return any || marks;
}

void Client::take(const Report& report, std::int64_t now_ns, policy::Policy& policy) {
  if (report.kind == FIKIT_ENTRY_SAMPLE || report.kind == FIKIT_ENTRY_GAP) return timed(report);
  const std::int64_t t_ns = time_of(report, now_ns);
  last_report_ns_ = t_ns;
  first_ns_ = std::min(first_ns_, t_ns);
  switch (report.kind) {
    case FIKIT_ENTRY_LAUNCH:
    case FIKIT_ENTRY_GRANTED:
    case FIKIT_ENTRY_EXPIRED: launch(report, t_ns, policy); break;
    case FIKIT_ENTRY_DRAINED:
      if (alone_ && disturbed_drains_ > 0) --disturbed_drains_;
      marks_.drained(report.value);
      exclusives_.drained(report.value);
      drained({.launches = report.value,
               .t_ns = t_ns,
               .began_ns = report.slot == 0 ? policy::kLongAgo : t_ns - std::int64_t{report.slot}},
              policy);
      break;
    case FIKIT_ENTRY_MARK:
    case FIKIT_ENTRY_MARK_GRANT: {
      if (report.kind == FIKIT_ENTRY_MARK && report.value > page_.launches()) break;
      const policy::Client* view = policy.client(id_);
      const std::int64_t end_ns = view == nullptr ? t_ns : std::max(t_ns, view->progress.dry_ns());
      marks_.put({.number = report.slot,
                  .granted = report.kind == FIKIT_ENTRY_MARK_GRANT,
                  .value = report.value,
                  .missing_ns = t_ns,
                  .until_ns = end_ns + lease_ns_});
      break;
    }
    case FIKIT_ENTRY_DONE: grant_done(static_cast<std::uint32_t>(report.value), t_ns, t_ns, policy); break;
    case FIKIT_ENTRY_COPY: copied(report, t_ns, policy); break;
    default: break; // a newer shim, or garbage
  }
}

void Client::launch(const Report& report, std::int64_t t_ns, policy::Policy& policy) {
  const bool granted = report.kind == FIKIT_ENTRY_GRANTED;
  const std::uint32_t request = granted ? grant_of(static_cast<std::uint32_t>(report.value)) : 0;
  if (request == granted_ || report.kind == FIKIT_ENTRY_EXPIRED) owes_launch_ = false;
  const predictor::Identity kernel = identity(report.slot);
  predictor::Prediction predicted = profile_.alone.predict(kernel, launched_context_);
  const policy::Client* view = policy.client(id_);
  if (report.kind == FIKIT_ENTRY_LAUNCH) end_gap(t_ns, view);
  solo_.launched(report.slot, predicted);
  complete(predicted, kernel);
  launched_context_.push(kernel);
  ++launches_;
  // What nobody let go is no sign that others were on the device.
  const bool let_go = view == nullptr || view->may_have_launched(granted, t_ns);
  if (let_go) {
    count_kernel();
    exclusives_.launched(report.slot, launches_, request, launches_ - std::min(complete_, launches_), t_ns);
  }
  log_.launched(predicted.duration_ns, predicted.duration_high_ns - predicted.duration_ns);
  policy::Event event{.kind = EventKind::launched,
                      .client = id_,
                      .time_ns = t_ns,
                      .granted = granted,
                      .request = request,
                      .duration_ns = predicted.duration_ns,
                      .gap_ns = predicted.gap_ns};
  if (foresees(policy))
    event.outlook = foresight_.launched(t_ns, kernel, predicted, exclusives_.is(report.slot), granted && page_.knows_runs());
  stood_.launched(launches_, t_ns, predicted.duration_mean_ns);
  if (siblings_ != nullptr) {
    if (together_.begin_ns < 0) together_.begin_ns = siblings_->work_ns;
    siblings_->work_ns += static_cast<double>(std::max<std::int64_t>(predicted.duration_mean_ns, 0));
    together_.end_ns = siblings_->work_ns;
  }
  if (granted && let_go) outstanding_.launched(request, t_ns, predicted.duration_mean_ns);
  policy.apply(event);
  note_launch(report, t_ns, predicted.duration_ns, view);
}

void Client::end_gap(std::int64_t t_ns, const policy::Client* view) {
  if (view == nullptr || launches_ == 0) return;
  if (!view->progress.uncertain()) idle_.add({.launches = launches_, .since_ns = view->progress.dry_ns()});
  const bool known = !view->progress.uncertain() && t_ns >= view->progress.dry_ns();
  const std::int64_t idle_ns = known ? t_ns - view->progress.dry_ns() : -1;
  if (known) certain_ = launches_;
  // A measurement is compared with itself.
  const bool boundary = idle_ns >= predictor::kBoundaryNs || (!measure_ && solo_.boundary_follows());
  if (boundary) paused(std::max<std::int64_t>(idle_ns, 0));
  solo_.gap_ended(boundary);
  gaps_.ended(view->gap_ns, idle_ns > kPauseNs ? -1 : idle_ns, epsilon_ns_);
  if (std::max(idle_ns, view->gap_ns) > epsilon_ns_ && known) note_gap(t_ns - idle_ns, idle_ns, view->gap_ns);
}

// What its siblings launched meanwhile is no part of its span either.
void Client::paused(std::int64_t idle_ns) {
  paused_ns_ += idle_ns;
  if (siblings_ != nullptr && together_.begin_ns >= 0)
    together_.begin_ns += std::min(siblings_->work_ns - together_.end_ns, static_cast<double>(idle_ns));
}

predictor::Prediction Client::predict(predictor::Identity kernel) const {
  predictor::Prediction found = profile_.alone.predict(kernel, launched_context_);
  complete(found, kernel);
  return found;
}

// What the run that is going on has taught stands in for what its profile does not know.
void Client::complete(predictor::Prediction& found, predictor::Identity kernel) const {
  for (const predictor::Model* model : {&measured_.alone, &profile_.beside, &measured_.beside}) {
    if (found.durations > 0 && found.gaps > 0) return;
    const predictor::Prediction learnt = model->predict(kernel, launched_context_);
    if (found.durations == 0) static_cast<predictor::DurationPrediction&>(found) = learnt;
    if (found.gaps == 0) static_cast<predictor::GapPrediction&>(found) = learnt;
  }
}

void Client::drained(const Drain& drain, policy::Policy& policy) {
  const std::uint64_t seen = std::min(drain.launches, launches_);
  const bool all = drain.launches >= launches_;
  complete_ = std::max(complete_, drain.launches);
  policy::Event event{.kind = EventKind::drained,
                      .client = id_,
                      .time_ns = drain.t_ns,
                      .since_ns = drain.since_ns,
                      .spread_ns = log_.spread_ns(certain_, seen),
                      .waited = drain.waited,
                      .began_ns = drain.began_ns,
                      .duration_ns = all ? 0 : log_.remaining_ns(drain.launches)};
  if (drain.waited && all && foresees(policy))
    event.outlook = foresight_.waited(drain.t_ns, traffic_.kernels - kernels_, drain.began_ns);
  if (all) note_ran(outstanding_.count(), drain.t_ns);
  stood_.done(drain.launches, drain.t_ns);
  policy.apply(event);
  if (drain.waited) note_drain(drain.t_ns);
  certain_ = std::max(certain_, seen);
}

// A mark that is not reached says as much as one that is: the work before it is still under way.
bool Client::look_at_marks(std::int64_t now_ns, policy::Policy& policy) {
  bool any = false;
  std::optional<std::uint64_t> missing; // all launches up to this one are not complete
  marks_.look(now_ns, page_, [&](const Mark& mark, bool reached) {
    if (!reached) {
      if (!mark.granted && !missing) missing = mark.value;
      return;
    }
    any = true;
    if (mark.granted) return grant_done(static_cast<std::uint32_t>(mark.value), mark.missing_ns, now_ns, policy);
    exclusives_.drained(mark.value);
    drained({.launches = mark.value, .t_ns = now_ns, .since_ns = mark.missing_ns, .waited = false}, policy);
  });
  stood_.missing(marks_.standing().value, marks_.standing().missing_ns);
  if (missing)
    policy.apply({.kind = EventKind::running,
                  .client = id_,
                  .time_ns = now_ns,
                  .duration_ns = *missing >= launches_ ? 0 : log_.remaining_ns(*missing)});
  return any;
}

bool Client::look_at_gang(std::int64_t now_ns, policy::Policy& policy) {
  const bool awaited = exclusives_.awaited(now_ns);
  if (awaited == awaited_) return false;
  awaited_ = awaited;
  policy.apply({.kind = EventKind::exclusive_runs, .client = id_, .time_ns = now_ns, .exclusive = awaited});
  return true;
}

void Client::count_kernel() {
  ++kernels_;
  ++traffic_.kernels;
}

void Client::ask_for_marks(std::uint32_t every) {
  if (every != marks_asked_) page_.set_mark_every(every);
  marks_asked_ = every;
}

void Client::describe(std::uint32_t slot, const predictor::Kernel& kernel) {
  identities_.at(slot) = measured_.alone.describe(kernel);
  measured_.beside.describe(kernel);
  exclusives_.describe(slot, kernel.kind == FIKIT_KIND_COOPERATIVE);
  for (const Report& report : timed_nameless_.take(slot)) timed(report);
  say_known(slot);
}

void Client::set_profile(Timed profile, const foresight::Learnt& before) {
  profile_ = std::move(profile);
  foresight_.expect(before);
  for (std::uint32_t slot = 1; slot < FIKIT_SLOTS; ++slot) say_known(slot);
}

} // namespace fikit::dispatcher
