// A client's copies: when it makes them, which lower clients' copies are planned around, and how long those at its gate take.
#include <algorithm>
#include <utility>

#include "client_tracker.hpp"

namespace fikit::tracking {

void ClientTracker::ask_for_copy(const Request& request, std::int64_t t_ns, policy::Policy& policy) {
  end_run();
  copy_ = {.engine = request.engine, .request = request.sequence, .bytes = request.bytes};
  policy.apply({.kind = policy::EventKind::waiting,
                .client = id_,
                .time_ns = t_ns,
                .request = request.sequence,
                .engine = request.engine,
                .duration_ns = forecaster_.copies(request.engine).expected_ns(request.bytes)});
}

void ClientTracker::copied(const Report& report, std::int64_t t_ns, policy::Policy& policy) {
  const policy::Engine engine = engine_of(report.slot);
  if (engine == policy::Engine::compute) return; // no copy engine: a false report
  switch_watch_.copied();
  const policy::Client* view = policy.client(id_);
  if (copy_.request == granted_ && copy_.bytes == report.value && copy_.begin_ns == policy::kNever && view != nullptr)
    copy_.begin_ns = std::max(t_ns, view->progress.finish_ns());
  policy::Event event{.kind = policy::EventKind::copied, .client = id_, .time_ns = t_ns, .engine = engine};
  if (foresees(policy)) event.outlook = forecaster_.copied(engine, clock_.own_ns(t_ns), report.value);
  policy.apply(event);
}

void ClientTracker::grant_done(std::uint32_t request, std::int64_t since_ns, std::int64_t t_ns, policy::Policy& policy) {
  collective_kernels_.grant_done(request);
  if (request == granted_) {
    owes_launch_ = false; // also where the driver refused the launch, so that no report of it comes
    account_.grant_done(t_ns);
  }
  // By a mark the work ended after since_ns. By the host's own report it may have ended long before t_ns, when the host found out.
  const std::int64_t over_ns = since_ns < t_ns ? std::max(since_ns, t_ns - look_ns_) : policy::kLongAgo;
  switch_watch_.grant_complete(request, request == granted_, {.since_ns = over_ns, .until_ns = t_ns});
  grant_watch_.done(request, {.since_ns = over_ns, .until_ns = t_ns}, traffic_.works_ns);
  if (request == copy_.request && copy_.begin_ns < t_ns)
    forecaster_.copies(copy_.engine).took(copy_.bytes, t_ns - std::exchange(copy_.begin_ns, policy::kNever));
  if (const policy::Client* view = policy.client(id_)) {
    const std::int64_t end_ns = view->reckoned_end_ns(request).value_or(t_ns);
    note_ran(outstanding_.count_of(request), std::clamp(end_ns, std::min(since_ns, t_ns), t_ns));
  }
  policy.apply({.kind = policy::EventKind::grant_done, .client = id_, .time_ns = t_ns, .request = request});
}

} // namespace fikit::tracking
