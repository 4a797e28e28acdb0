// A policy driven by hand, for tests in manual time.
#include "policy/policy.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "forecaster/forecaster.hpp"
#include "outlook.hpp"
#include "parts.hpp"
#include "tuning_fields.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace fikit::binding {

policy::Options options(std::int64_t lease_ns, std::int64_t min_gap_ns, std::int64_t run_ahead_ns,
                        std::int64_t idle_after_ns) {
  policy::Options options;
  options.lease_ns = lease_ns;
  options.min_gap_ns = min_gap_ns;
  options.run_ahead_ns = run_ahead_ns;
  options.idle_after_ns = idle_after_ns;
  return options;
}

namespace {

// Every event is followed by decide() at the event's time.
class ManualPolicy {
 public:
  ManualPolicy(const std::string& name, const policy::Options& options, const policy::Device& device)
      : policy_(policy::make_policy(name, options)), device_(device) {
    if (policy_ == nullptr) throw nb::value_error(policy::unknown_policy(name).c_str());
  }

  nb::list event(const std::string& kind, policy::ClientId client, std::int64_t time_ns, int priority, bool measuring, bool overlaps,
                 bool granted, bool exclusive, std::uint32_t request, std::optional<std::int64_t> duration_ns,
                 std::optional<std::int64_t> gap_ns, std::optional<std::int64_t> since_ns,
                 std::optional<std::int64_t> spread_ns, const std::vector<std::int64_t>& slack_ns,
                 const std::vector<std::int64_t>& idle_ns, std::optional<std::int64_t> span_ns, bool open,
                 std::uint32_t run_launches, std::optional<std::int64_t> run_ns,
                 std::uint32_t long_run_launches, std::optional<std::int64_t> long_run_ns,
                 std::optional<std::int64_t> began_ns, const std::string& engine, std::int64_t in_line_ns,
                 std::optional<std::int64_t> high_ns, std::optional<std::int64_t> feared_ns, std::optional<std::int64_t> longest_ns,
                 std::int64_t run_longer_ns, std::uint64_t user, std::uint64_t job, bool stands) {
    policy::Event event{.kind = kind_of(kind),
                        .client = client,
                        .time_ns = time_ns,
                        .since_ns = since_ns.value_or(policy::kLongAgo),
                        .spread_ns = spread_ns.value_or(policy::kUnknown),
                        .began_ns = began_ns.value_or(policy::kLongAgo),
                        .priority = priority,
                        .measuring = measuring,
                        .overlaps = overlaps,
                        .user = user,
                        .job = job,
                        .granted = granted,
                        .stands = stands,
                        .exclusive = exclusive,
                        .request = request,
                        .engine = engine_of(engine),
                        .duration_ns = duration_ns.value_or(policy::kUnknown),
                        .gap_ns = gap_ns.value_or(policy::kUnknown),
                        .outlook = {.slack = times(slack_ns),
                                    .idle = times(idle_ns),
                                    .span_ns = span_ns.value_or(policy::kUnknown),
                                    .tail_ns = policy::kUnknown,
                                    .after_ns = 0,
                                    .high_ns = high_ns.value_or(policy::kUnknown),
                                    .feared_ns = feared_ns.value_or(policy::kUnknown),
                                    .longest_ns = longest_ns.value_or(policy::kUnknown),
                                    .run_longer_ns = run_longer_ns,
                                    .in_line_ns = in_line_ns,
                                    .run = {run_launches, run_ns.value_or(policy::kUnknown)},
                                    .long_run = {long_run_launches, long_run_ns.value_or(policy::kUnknown)},
                                    .open = open}};
    forecaster::foretell(alone_[client], event);
    const bool taken = policy_->apply(event);
    if (!taken) throw nb::value_error("unknown client, client present already, or too many clients");
    return decide(time_ns);
  }

  nb::list change_priority(policy::ClientId client, int priority, std::int64_t time_ns) {
    if (!policy_->change_priority(client, priority, time_ns)) throw nb::value_error("unknown client, it measures, or has that priority");
    return decide(time_ns);
  }

  // Of a client that waits: (reason, who is blamed).
  std::optional<std::pair<std::string, policy::ClientId>> held(policy::ClientId id) const {
    const policy::Client* client = policy_->client(id);
    if (client == nullptr || !client->at_gate()) return std::nullopt;
    const policy::WaitReason why = policy_->held(*client);
    return std::pair(std::string(policy::kReasonNames[static_cast<std::size_t>(why.reason)]), why.by);
  }

  std::uint64_t looks() const { return policy_->looks(); }
  std::int64_t queue_free_ns() const { return policy_->queue_free_ns(); }
  bool index_agrees() const { return policy_->index_agrees(); }

 private:
  nb::list decide(std::int64_t time_ns) {
    policy_->know([this](int) { return device_; });
    policy_->decide(time_ns, decisions_);
    nb::list list;
    for (const policy::Decision& decision : decisions_.items()) list.append(to_tuple(decision));
    return list;
  }

  static policy::EventKind kind_of(const std::string& name) {
    for (std::size_t i = 0; i < policy::kEventNames.size(); ++i)
      if (name == policy::kEventNames[i]) return static_cast<policy::EventKind>(i);
    throw nb::value_error("unknown kind of event");
  }

  static policy::Engine engine_of(const std::string& name) {
    for (std::size_t i = 0; i < policy::kEngineNames.size(); ++i)
      if (name == policy::kEngineNames[i]) return static_cast<policy::Engine>(i);
    throw nb::value_error("unknown engine, use compute, to_device or to_host");
  }

  static nb::tuple to_tuple(const policy::Decision& decision) {
    const std::string_view kind = policy::kDecisionNames[static_cast<std::size_t>(decision.kind)];
    const nb::str name(kind.data(), kind.size());
    switch (decision.kind) {
      case policy::DecisionKind::open:
      case policy::DecisionKind::close:
      case policy::DecisionKind::end_run: break;
      case policy::DecisionKind::ask_copies: return nb::make_tuple(name, decision.client, decision.engines[0], decision.engines[1]);
      case policy::DecisionKind::grant: return nb::make_tuple(name, decision.client, decision.request, decision.launches);
      case policy::DecisionKind::extend_run: return nb::make_tuple(name, decision.client, decision.launches);
      case policy::DecisionKind::wake_at: return nb::make_tuple(name, decision.time_ns);
    }
    return nb::make_tuple(name, decision.client);
  }

  std::unique_ptr<policy::Policy> policy_;
  policy::Device device_;
  std::map<policy::ClientId, predictor::SegmentAlone> alone_; // as the predictor reckons
  policy::Decisions decisions_;
};

} // namespace

void bind_policy(nb::module_& m) {
  const policy::Options standard;
  nb::class_<ManualPolicy>(m, "Policy")
      .def("__init__",
           [](ManualPolicy* self, const std::string& name, std::int64_t lease_ns, std::int64_t min_gap_ns,
              std::int64_t run_ahead_ns, std::int64_t idle_after_ns, double max_slowdown, std::int64_t max_delay_ns,
              std::int64_t starvation_timeout_ns, const nb::dict& tuning, std::optional<std::int64_t> switch_ns) {
             policy::Options all = options(lease_ns, min_gap_ns, run_ahead_ns, idle_after_ns);
             turn_all(all.tuning, policy::kTuningFields, tuning, "unknown constant of the policy");
             all.protection = {.max_slowdown = max_slowdown, .max_delay_ns = max_delay_ns};
             all.starvation_timeout_ns = starvation_timeout_ns;
             new (self) ManualPolicy(name, all, {.switch_ns = switch_ns.value_or(policy::kUnknown)});
           },
           "name"_a, nb::kw_only(), "lease_ns"_a = standard.lease_ns, "min_gap_ns"_a = standard.min_gap_ns,
           "run_ahead_ns"_a = standard.run_ahead_ns, "idle_after_ns"_a = standard.idle_after_ns,
           "max_slowdown"_a = standard.protection.max_slowdown, "max_delay_ns"_a = standard.protection.max_delay_ns,
           "starvation_timeout_ns"_a = standard.starvation_timeout_ns, "tuning"_a = nb::dict(), "switch_ns"_a = 0)
      .def("event", &ManualPolicy::event, "kind"_a, "client"_a, "time_ns"_a, nb::kw_only(), "priority"_a = 5,
           "measuring"_a = false, "overlaps"_a = false, "granted"_a = false, "exclusive"_a = false, "request"_a = 0, "duration_ns"_a = nb::none(),
           "gap_ns"_a = nb::none(), "since_ns"_a = nb::none(), "spread_ns"_a = nb::none(),
           "slack_ns"_a = std::vector<std::int64_t>(), "idle_ns"_a = std::vector<std::int64_t>(),
           "span_ns"_a = nb::none(), "open"_a = false, "run_launches"_a = 1, "run_ns"_a = nb::none(),
           "long_run_launches"_a = 1, "long_run_ns"_a = nb::none(),
           "began_ns"_a = nb::none(), "engine"_a = "compute", "in_line_ns"_a = 0,
           "high_ns"_a = nb::none(), "feared_ns"_a = nb::none(), "longest_ns"_a = nb::none(), "run_longer_ns"_a = 0, "user"_a = 0, "job"_a = 0,
           "stands"_a = false)
      .def("change_priority", &ManualPolicy::change_priority, "client"_a, "priority"_a, "time_ns"_a)
      .def("held", &ManualPolicy::held, "client"_a)
      .def("index_agrees", &ManualPolicy::index_agrees)
      .def_prop_ro("queue_free_ns", &ManualPolicy::queue_free_ns)
      .def_prop_ro("looks", &ManualPolicy::looks);
  nb::list reasons;
  for (const std::string_view name : policy::kReasonNames) reasons.append(std::string(name));
  m.attr("REASONS") = nb::tuple(reasons);
}

} // namespace fikit::binding
