#include "client_tracker.hpp"

#include <algorithm>

namespace fikit::tracking {

using policy::EventKind;

ClientTracker::ClientTracker(Tracked client, ClientPage& page, const policy::Options& options, std::int64_t now_ns, Traffic& traffic)
    : id_(client.id),
      measure_(client.measure),
      lease_ns_(options.lease_ns),
      min_gap_ns_(options.min_gap_ns),
      look_ns_(client.look_ns),
      page_(page),
      traffic_(traffic),
      last_report_ns_(now_ns),
      identities_(FIKIT_SLOTS),
      nameless_(FIKIT_SLOTS),
      forecaster_(options.tuning, traffic.kernels),
      siblings_(client.siblings),
      collective_kernels_(std::move(client.gang), std::move(client.siblings), options.lease_ns),
      span_alone_(FIKIT_SLOTS),
      room_(std::move(client.room)),
      journal_(claim_.more(client.journal * sizeof(JournalEvent)) ? client.journal : 0),
      account_(now_ns, {.job = siblings_ == nullptr ? nullptr : &siblings_->reckoned, .measured = client.measure, .overlaps = client.overlaps}),
      wait_book_(client.id, journal_, account_),
      switch_watch_(client.id, client.priority, client.overlaps, traffic.use, traffic.switches) {
  for (predictor::Model* model : {&measured_.alone, &measured_.beside, &measured_.doubtful}) model->keep_within(room_);
  forecaster_.keep_within(room_);
}

void ClientTracker::resume(std::uint64_t launches) {
  launches_ = launches;
  log_.resume_at(launches);
  switch_watch_.lost();
  grant_watch_.forget();
  account_.lost();
  note_under_way(0);
  next_.valid = false;
}

void ClientTracker::lost_reports(std::uint64_t launches, policy::Policy& policy) {
  resume(launches);
  if (accesses_ != nullptr) accesses_->missed();
  if (foresees(policy)) forecaster_.missed(last_report_ns_);
}

static bool is_timeless(const Report& report) {
  return report.kind == FIKIT_ENTRY_SAMPLE || report.kind == FIKIT_ENTRY_GAP || report.kind == FIKIT_ENTRY_TOUCHES ||
         report.kind == FIKIT_ENTRY_TOUCH || report.kind == FIKIT_ENTRY_FREED;
}

// A client can write any time into a report. Clamped to its last report and to now, a false time changes only this client's own order.
std::int64_t ClientTracker::time_of(const Report& report, std::int64_t now_ns) const {
  if (is_timeless(report)) return last_report_ns_;
  return std::clamp(report.t_ns, last_report_ns_, std::max(now_ns, last_report_ns_));
}

void ClientTracker::take(const Report& report, std::int64_t now_ns, policy::Policy& policy) {
  if (report.kind == FIKIT_ENTRY_SAMPLE || report.kind == FIKIT_ENTRY_GAP) return timed(report);
  if (is_timeless(report)) return touched(report);
  const std::int64_t t_ns = time_of(report, now_ns);
  goes_on(t_ns, policy);
  last_report_ns_ = t_ns;
  first_ns_ = std::min(first_ns_, t_ns);
  switch (report.kind) {
    case FIKIT_ENTRY_LAUNCH:
    case FIKIT_ENTRY_GRANTED:
    case FIKIT_ENTRY_EXPIRED: launch(report, t_ns, now_ns, policy); break;
    case FIKIT_ENTRY_DRAINED:
      if (alone_ && disturbed_drains_ > 0) --disturbed_drains_;
      marks_.drained(report.value);
      collective_kernels_.drained(report.value);
      drained({.launches = report.value,
               .t_ns = t_ns,
               .began_ns = report.slot == 0 ? policy::kLongAgo : t_ns - std::int64_t{report.slot}},
              now_ns, policy);
      break;
    case FIKIT_ENTRY_MARK:
    case FIKIT_ENTRY_MARK_GRANT: put_mark(report, t_ns, policy); break;
    case FIKIT_ENTRY_DONE: grant_done(static_cast<std::uint32_t>(report.value), t_ns, t_ns, policy); break;
    case FIKIT_ENTRY_COPY: copied(report, t_ns, policy); break;
    default: break; // a newer shim, or garbage
  }
}

void ClientTracker::put_mark(const Report& report, std::int64_t t_ns, const policy::Policy& policy) {
  if (report.kind == FIKIT_ENTRY_MARK && report.value > page_.launches()) return;
  const policy::Client* view = policy.client(id_);
  const std::int64_t end_ns = view == nullptr ? t_ns : std::max(t_ns, view->progress.dry_ns());
  marks_.put({.number = report.slot,
              .granted = report.kind == FIKIT_ENTRY_MARK_GRANT,
              .value = report.value,
              .missing_ns = t_ns,
              .until_ns = end_ns + lease_ns_});
}

void ClientTracker::launch(const Report& report, std::int64_t t_ns, std::int64_t now_ns, policy::Policy& policy) {
  const bool granted = report.kind == FIKIT_ENTRY_GRANTED;
  const std::uint32_t request = granted ? grant_of(static_cast<std::uint32_t>(report.value)) : 0;
  if (request == granted_ || report.kind == FIKIT_ENTRY_EXPIRED) owes_launch_ = false;
  const predictor::Identity kernel = identity(report.slot);
  const Predicted known = predict(report.slot, t_ns);
  const predictor::Prediction& predicted = known.completed;
  const policy::Client* view = policy.client(id_);
  if (report.kind == FIKIT_ENTRY_LAUNCH) end_gap(t_ns, view);
  span_alone_.launched(report.slot, known.profiled);
  launched_context_.push(kernel);
  ++launches_;
  // A launch past a closed gate without grant is not counted: a client must not make others believe that they share the GPU.
  const bool let_go = view == nullptr || view->may_have_launched(granted, t_ns);
  if (let_go) {
    count_kernel();
    traffic_.works_ns += predicted.duration_ns < 0 ? lease_ns_ : predicted.duration_ns;
    collective_kernels_.launched(report.slot, launches_, request, launches_ - std::min(complete_, launches_), t_ns);
  }
  if (accesses_ != nullptr) accesses_->launched(launches_, kernel, known.alone.duration_mean_ns);
  log_.launched(predicted.duration_ns, predicted.duration_high_ns - predicted.duration_ns);
  policy::Event event{.kind = EventKind::launched,
                      .client = id_,
                      .time_ns = t_ns,
                      .granted = granted,
                      .request = request,
                      .duration_ns = predicted.duration_ns,
                      .gap_ns = predicted.gap_ns};
  if (foresees(policy)) {
    event.outlook = forecaster_.launched(clock_.own_ns(t_ns), kernel, predicted, collective_kernels_.is(report.slot), granted && page_.knows_runs());
    event.outlook.alone_dry_ns = clock_.real_ns(event.outlook.alone_dry_ns);
  }
  interference_.launched(launches_, t_ns, predicted.duration_mean_ns);
  if (siblings_ != nullptr) note_siblings(predicted.duration_mean_ns);
  if (let_go) switch_watch_.launched(launches_, request, t_ns, predicted);
  if (granted && let_go) outstanding_.launched(request, t_ns, predicted.duration_mean_ns);
  tell(event, policy);
  if (granted && let_go) watch_grant(request, report.slot, predicted, view);
  note_launch(report, t_ns, predicted.duration_ns, view);
  account_.launched({.t_ns = t_ns,
                     .work_ns = known.alone.duration_mean_ns,
                     .gap_ns = known.alone.idle_mean_ns,
                     .no_core_ns = host_cores_.launched(t_ns, now_ns, [this] { return page_.no_core_ns(); })},
                    others_work());
  note_under_way(launches_ - std::min(complete_, launches_));
}

void ClientTracker::tell(policy::Event& event, policy::Policy& policy) {
  if (insight_ != nullptr) insight_->tells(event);
  policy.apply(event);
}

// Between which moments the work ended that a drain or a mark reports.
Moment ClientTracker::ended(const Drain& drain) const {
  constexpr std::int64_t kWaitsNs = 10'000; // a synchronisation that had nothing to wait for returns sooner
  if (!drain.waited) return {.since_ns = std::max(drain.since_ns, drain.t_ns - look_ns_), .until_ns = drain.t_ns};
  const bool awaited = drain.began_ns != policy::kLongAgo && drain.t_ns - drain.began_ns >= kWaitsNs;
  return {.since_ns = awaited ? drain.t_ns : drain.since_ns, .until_ns = drain.t_ns};
}

void ClientTracker::drained(const Drain& drain, std::int64_t now_ns, policy::Policy& policy) {
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
  if (drain.waited && all && foresees(policy)) {
    event.outlook = forecaster_.waited(clock_.own_ns(drain.t_ns), traffic_.kernels - kernels_, clock_.own_ns(drain.began_ns));
    event.outlook.alone_end_ns = clock_.real_ns(event.outlook.alone_end_ns);
  }
  if (drain.waited && all && accesses_ != nullptr) accesses_->waited(drain.t_ns);
  switch_watch_.complete(drain.launches, all && !owes_launch_, ended(drain));
  if (all) note_ran(outstanding_.count(), drain.t_ns), grant_watch_.all_done(ended(drain), traffic_.works_ns);
  note_under_way(launches_ - std::min(complete_, launches_));
  account_.complete({.t_ns = drain.t_ns,
                     .began_ns = drain.waited ? drain.began_ns : policy::kLongAgo,
                     .left_ns = event.duration_ns,
                     .all = all},
                    others_work());
  if (all) host_cores_.all_done(drain.t_ns, now_ns, [this] { return page_.no_core_ns(); });
  interference_.done(drain.launches, drain.t_ns);
  tell(event, policy);
  if (drain.waited) note_drain(drain.t_ns);
  certain_ = std::max(certain_, seen);
}

// A mark that is not reached is a fact too: the work before it is still running or queued.
bool ClientTracker::look_at_marks(std::int64_t now_ns, policy::Policy& policy) {
  bool any = false;
  std::optional<std::uint64_t> missing; // all launches up to this one are not complete
  marks_.look(now_ns, page_, [&](const Mark& mark, bool reached) {
    if (!reached) {
      if (!mark.granted && !missing) missing = mark.value;
      return;
    }
    any = true;
    if (mark.granted) return grant_done(static_cast<std::uint32_t>(mark.value), mark.missing_ns, now_ns, policy);
    collective_kernels_.drained(mark.value);
    drained({.launches = mark.value, .t_ns = now_ns, .since_ns = mark.missing_ns, .waited = false}, now_ns, policy);
  });
  interference_.missing(marks_.standing().value, marks_.standing().missing_ns);
  if (missing)
    policy.apply({.kind = EventKind::running,
                  .client = id_,
                  .time_ns = now_ns,
                  .duration_ns = *missing >= launches_ ? 0 : log_.remaining_ns(*missing)});
  return any;
}

void ClientTracker::see_host(bool stopped, std::int64_t since_ns, std::int64_t now_ns, policy::Policy& policy) {
  if (!stopped) {
    goes_on(now_ns, policy);
    ran_ns_ = now_ns;
    return;
  }
  if (!stands()) stands_since_ns_ = std::max({since_ns, last_report_ns_, ran_ns_});
  account_.stood(stands_since_ns_, now_ns);
  policy.apply({.kind = EventKind::host_stands, .client = id_, .time_ns = now_ns, .since_ns = stands_since_ns_, .stands = true}); // again: its priority may be new
}

// It may have gone on at any moment since it was last seen to stand.
void ClientTracker::goes_on(std::int64_t t_ns, policy::Policy& policy) {
  if (!stands()) return;
  account_.stood(stands_since_ns_, t_ns);
  clock_.stood(std::exchange(stands_since_ns_, policy::kNever), t_ns);
  policy.apply({.kind = EventKind::host_stands, .client = id_, .time_ns = t_ns, .stands = false});
}

bool ClientTracker::look_at_gang(std::int64_t now_ns, policy::Policy& policy) {
  const bool awaited = collective_kernels_.awaited(now_ns);
  if (awaited == awaited_) return false;
  awaited_ = awaited;
  policy.apply({.kind = EventKind::exclusive_runs, .client = id_, .time_ns = now_ns, .exclusive = awaited});
  return true;
}

} // namespace fikit::tracking
