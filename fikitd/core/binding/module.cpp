// fikitd._core: the native core as Python sees it. Typed in fikitd/fikitd/_core.pyi.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "convert.hpp"
#include "knobs.hpp"
#include "outlook.hpp"
#include "dispatcher/dispatcher.hpp"
#include "dispatcher/packed_profile.hpp"
#include "dispatcher/page.hpp"
#include "dispatcher/spin.hpp"
#include "foresight/foresight.hpp"
#include "policy/policy.hpp"
#include "predictor/model.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace fikit::binding {
extern const char kBuild[]; // scripts/build_id.py

namespace {

using dispatcher::Dispatcher;
using Triple = std::array<std::uint32_t, 3>;

policy::Options options(std::int64_t lease_ns, std::int64_t epsilon_ns, std::int64_t run_ahead_ns,
                        std::int64_t idle_after_ns) {
  policy::Options options;
  options.lease_ns = lease_ns;
  options.epsilon_ns = epsilon_ns;
  options.run_ahead_ns = run_ahead_ns;
  options.idle_after_ns = idle_after_ns;
  return options;
}

// A policy driven by hand: every event is followed by decide() at the event's time.
class ManualPolicy {
 public:
  ManualPolicy(const std::string& name, const policy::Options& options, const policy::Device& device)
      : policy_(policy::make_policy(name, options)), device_(device) {
    if (policy_ == nullptr) throw nb::value_error(policy::unknown_policy(name).c_str());
  }

  nb::list event(const std::string& kind, policy::ClientId client, std::int64_t time_ns, int priority, bool measuring,
                 bool granted, bool exclusive, std::uint32_t request, std::optional<std::int64_t> duration_ns,
                 std::optional<std::int64_t> gap_ns, std::optional<std::int64_t> since_ns,
                 std::optional<std::int64_t> spread_ns, const std::vector<std::int64_t>& slack_ns,
                 const std::vector<std::int64_t>& idle_ns, std::optional<std::int64_t> span_ns, bool open,
                 std::uint32_t run_launches, std::optional<std::int64_t> run_ns,
                 std::uint32_t long_run_launches, std::optional<std::int64_t> long_run_ns,
                 std::optional<std::int64_t> began_ns, const std::string& engine, std::int64_t in_line_ns,
                 std::optional<std::int64_t> high_ns) {
    policy::Event event{.kind = kind_of(kind),
                        .client = client,
                        .time_ns = time_ns,
                        .since_ns = since_ns.value_or(policy::kLongAgo),
                        .spread_ns = spread_ns.value_or(policy::kUnknown),
                        .began_ns = began_ns.value_or(policy::kLongAgo),
                        .priority = priority,
                        .measuring = measuring,
                        .granted = granted,
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
                                    .in_line_ns = in_line_ns,
                                    .run = {run_launches, run_ns.value_or(policy::kUnknown)},
                                    .long_run = {long_run_launches, long_run_ns.value_or(policy::kUnknown)},
                                    .open = open}};
    foresight::foretell(alone_[client], event);
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
    const policy::Hold why = policy_->held(*client);
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

predictor::Kernel kernel(const std::string& name, std::uint64_t module_hash, const Triple& grid, const Triple& block,
                         std::uint32_t shared_bytes, std::uint32_t kind) {
  return {.name = name,
          .module_hash = module_hash,
          .grid = grid,
          .block = block,
          .shared_bytes = shared_bytes,
          .kind = kind};
}

predictor::Context context(const std::vector<predictor::Identity>& before) {
  predictor::Context result;
  for (const predictor::Identity identity : before) result.push(identity);
  return result;
}

// A time that may be unknown, as None.
template <class Class>
auto or_none(std::int64_t Class::*time) {
  return [time](const predictor::Prediction& said) -> std::optional<std::int64_t> {
    return said.*time < 0 ? std::nullopt : std::optional(said.*time);
  };
}

void bind_prediction(nb::module_& m) {
  using predictor::Prediction;
  nb::class_<Prediction>(m, "Prediction")
      .def_prop_ro("duration_ns", or_none(&Prediction::duration_ns))
      .def_prop_ro("duration_mean_ns", or_none(&Prediction::duration_mean_ns))
      .def_prop_ro("duration_high_ns", or_none(&Prediction::duration_high_ns))
      .def_prop_ro("durations", [](const Prediction& said) { return said.durations; })
      .def_prop_ro("duration_context", [](const Prediction& said) { return int{said.duration_context}; })
      .def_prop_ro("gap_ns", or_none(&Prediction::gap_ns))
      .def_prop_ro("gap_low_ns", or_none(&Prediction::gap_low_ns))
      .def_prop_ro("gap_mean_ns", or_none(&Prediction::gap_mean_ns))
      .def_prop_ro("boundary_chance", [](const Prediction& said) { return said.boundary_chance; })
      .def_prop_ro("boundary_low_ns", or_none(&Prediction::boundary_low_ns))
      .def_prop_ro("boundary_median_ns", or_none(&Prediction::boundary_median_ns))
      .def_prop_ro("boundary_high_ns", or_none(&Prediction::boundary_high_ns))
      .def_prop_ro("gaps", [](const Prediction& said) { return said.gaps; })
      .def_prop_ro("gap_context", [](const Prediction& said) { return int{said.gap_context}; });
}

void bind_predictor(nb::module_& m) {
  m.attr("BOUNDARY_NS") = predictor::kBoundaryNs;
  m.def("bucket_of", &predictor::bucket_of, "ns"_a);
  m.def("bucket_low", &predictor::bucket_low, "bucket"_a);
  m.def(
      "quantile", [](const nb::dict& histogram, double q) { return predictor::quantile(to_histogram(histogram), q); },
      "histogram"_a, "q"_a);
  m.def("merge_statistics", &merge_statistics, "one"_a, "other"_a);
  m.def(
      "identify",
      [](const std::string& name, std::uint64_t module_hash, const Triple& grid, const Triple& block,
         std::uint32_t shared_bytes) { return predictor::identify(kernel(name, module_hash, grid, block, shared_bytes, 0)); },
      "name"_a, "module_hash"_a, "grid"_a, "block"_a, "shared_bytes"_a);

  nb::class_<predictor::Model>(m, "Model")
      .def(nb::init<>())
      .def_static("from_profile", &to_model, "kernels"_a)
      .def("describe",
           [](predictor::Model& self, const std::string& name, std::uint64_t module_hash, const Triple& grid,
              const Triple& block, std::uint32_t shared_bytes, std::uint32_t kind) {
             return self.describe(kernel(name, module_hash, grid, block, shared_bytes, kind));
           },
           "name"_a, "module_hash"_a, "grid"_a, "block"_a, "shared_bytes"_a, "kind"_a = 0)
      .def("add_duration",
           [](predictor::Model& self, predictor::Identity identity, const std::vector<predictor::Identity>& before,
              std::int64_t ns) { self.add_duration(identity, context(before), ns); },
           "identity"_a, "context"_a, "ns"_a)
      .def("add_gap",
           [](predictor::Model& self, predictor::Identity identity, const std::vector<predictor::Identity>& before,
              std::int64_t ns) { self.add_gap(identity, context(before), ns); },
           "identity"_a, "context"_a, "ns"_a)
      .def("merge", [](predictor::Model& self, const predictor::Model& other) { self.merge(other); }, "other"_a)
      .def("learn",
           [](predictor::Model& self, predictor::Identity identity, const std::vector<predictor::Identity>& before,
              std::int64_t ns) { return self.learn(identity, context(before), ns); },
           "identity"_a, "context"_a, "ns"_a)
      .def("follow",
           [](predictor::Model& self, predictor::Identity identity, const std::vector<predictor::Identity>& before,
              std::int64_t ns) { return self.follow(identity, context(before), ns); },
           "identity"_a, "context"_a, "ns"_a)
      .def_prop_ro("drift_alarms", &predictor::Model::drift_alarms)
      .def("predict",
           [](const predictor::Model& self, predictor::Identity identity,
              const std::vector<predictor::Identity>& before) { return self.predict(identity, context(before)); },
           "identity"_a, "context"_a)
      .def("predict_quantile",
           [](const predictor::Model& self, predictor::Identity identity, const std::vector<predictor::Identity>& before,
              double q) {
             const auto [duration_ns, gap_ns] = self.predict_quantile(identity, context(before), q);
             const auto known = [](std::int64_t ns) { return ns < 0 ? std::nullopt : std::optional(ns); };
             return std::pair(known(duration_ns), known(gap_ns));
           },
           "identity"_a, "context"_a, "q"_a)
      .def("export", [](const predictor::Model& self) { return to_profile(self); });
}

void bind_packed_profile(nb::module_& m) {
  m.def(
      "pack_profile",
      [](const nb::sequence& kernels, const nb::dict& rhythm, std::size_t limit, bool names) {
        const auto with = names ? dispatcher::Names::with : dispatcher::Names::without;
        const std::string packed = dispatcher::pack(to_timed(kernels), to_learnt(rhythm), with, limit);
        return nb::bytes(packed.data(), packed.size());
      },
      "kernels"_a, "rhythm"_a, "limit"_a, nb::kw_only(), "names"_a = false);
  m.def(
      "unpack_profile",
      [](const nb::bytes& packed) {
        dispatcher::Timed timed;
        foresight::Learnt learnt;
        if (!dispatcher::unpack({packed.c_str(), packed.size()}, timed, learnt))
          throw std::invalid_argument("it is no packed profile");
        return nb::make_tuple(to_profile(timed), to_dict(learnt));
      },
      "packed"_a);
}

void bind_dispatcher(nb::module_& m) {
  const auto released = nb::call_guard<nb::gil_scoped_release>();
  nb::list kinds;
  for (const std::string_view name : dispatcher::kJournalKinds) kinds.append(std::string(name));
  m.attr("JOURNAL_KINDS") = nb::tuple(kinds);
  m.def("make_page", &dispatcher::make_page, "measure"_a, "lease_ns"_a, "spin_ns"_a, "sample_every"_a = 0,
        "version"_a = FIKIT_PROTOCOL_VERSION, nb::kw_only(), "fills_ask"_a = false, "collective_names"_a = "");

  nb::class_<dispatcher::Spin>(m, "Spin")
      .def(nb::init<std::int64_t>(), "longest_ns"_a)
      .def("came_after", &dispatcher::Spin::came_after, "ns"_a)
      .def_prop_ro("limit_ns", &dispatcher::Spin::limit_ns);

  nb::class_<predictor::Room>(m, "Room")
      .def(nb::init<std::size_t, std::shared_ptr<predictor::Room>>(), "size"_a, "within"_a = nb::none())
      .def_prop_ro("left", &predictor::Room::left);

  nb::class_<dispatcher::Departed>(m, "Departed")
      .def_prop_ro("stats", [](const dispatcher::Departed& self) { return to_dict(self.stats()); })
      .def("journal",
           [](const dispatcher::Departed& self) {
             dispatcher::Story story;
             {
               const nb::gil_scoped_release release;
               story = self.story();
             }
             return to_dict(story);
           })
      .def("profile",
           [](const dispatcher::Departed& self, std::size_t limit) {
             std::string packed;
             {
               const nb::gil_scoped_release release;
               packed = dispatcher::pack(self.measured(), self.learnt(), dispatcher::Names::with, limit);
             }
             return nb::bytes(packed.data(), packed.size());
           },
           "limit"_a);

  nb::class_<Dispatcher>(m, "Dispatcher")
      .def("__init__",
           [](Dispatcher* self, const std::string& policy, std::int64_t lease_ns, std::int64_t epsilon_ns,
              std::int64_t run_ahead_ns, std::int64_t idle_after_ns, std::int64_t spin_ns, std::uint32_t mark_every,
              double max_slowdown, std::optional<std::int64_t> max_delay_ns, std::optional<std::int64_t> ageing_ns,
              std::size_t trace_events, const nb::dict& tuning) {
             policy::Options all = options(lease_ns, epsilon_ns, run_ahead_ns, idle_after_ns);
             turn_all(all.tuning, policy::kKnobs, tuning, "unknown constant of the policy");
             all.protection = {.max_slowdown = max_slowdown, .max_delay_ns = max_delay_ns.value_or(policy::kNever)};
             all.ageing_ns = ageing_ns.value_or(policy::kNever);
             new (self) Dispatcher(policy, all, spin_ns, mark_every, trace_events);
           },
           "policy"_a, "lease_ns"_a, "epsilon_ns"_a, "run_ahead_ns"_a, "idle_after_ns"_a, "spin_ns"_a,
           "mark_every"_a = 32, nb::kw_only(), "max_slowdown"_a = policy::Protection{}.max_slowdown,
           "max_delay_ns"_a = nb::none(), "ageing_ns"_a = policy::Options{}.ageing_ns,
           "trace_events"_a = 0, "tuning"_a = nb::dict())
      .def("add_client", &Dispatcher::add_client, "client_id"_a, "memfd"_a, "doorbell"_a, "priority"_a, "measure"_a,
           nb::kw_only(), "max_slowdown"_a = nb::none(), "max_delay_ns"_a = nb::none(), "gang"_a = 0,
           "resume"_a = false, "room"_a = nb::none(), "overlaps"_a = false, released)
      .def("switches",
           [](Dispatcher& self) {
             std::vector<tracking::SwitchMeter::Word> words;
             {
               const nb::gil_scoped_release release;
               words = self.switches();
             }
             nb::list list;
             for (const auto& [client, cost] : words)
               list.append(nb::make_tuple(client, cost.switch_ns, cost.spread_ns, cost.count, cost.level));
             return list;
           })
      .def("device",
           [](Dispatcher& self, int priority) {
             policy::Device device;
             {
               const nb::gil_scoped_release release;
               device = self.device(priority);
             }
             nb::dict found;
             found["overlaps"] = device.sharing == policy::Sharing::overlap;
             const auto or_none = [](std::int64_t ns) { return ns < 0 ? nb::none() : nb::object(nb::int_(ns)); };
             found["switch_ns"] = or_none(device.switch_ns);
             found["spread_ns"] = or_none(device.spread_ns);
             found["samples"] = device.samples;
             return found;
           },
           "priority"_a = 9)
      .def("remember_switch", &Dispatcher::remember_switch, "switch_ns"_a, "spread_ns"_a, "count"_a, "priority"_a, released)
      .def("set_priority", &Dispatcher::set_priority, "client_id"_a, "priority"_a, released)
      .def("ended", &Dispatcher::ended, "client_id"_a, released)
      .def("remove_client",
           [](Dispatcher& self, policy::ClientId id) {
             dispatcher::Stats stats;
             {
               const nb::gil_scoped_release release;
               stats = self.remove_client(id).stats();
             }
             return to_dict(stats);
           },
           "client_id"_a)
      .def("take_client", &Dispatcher::remove_client, "client_id"_a, released)
      .def("use_profile",
           [](Dispatcher& self, policy::ClientId id, const nb::bytes& packed) {
             const std::string_view bytes(packed.c_str(), packed.size());
             const nb::gil_scoped_release release;
             dispatcher::Timed profile;
             foresight::Learnt learnt;
             for (predictor::Model* model : {&profile.alone, &profile.beside, &profile.doubtful}) model->keep_within(self.room(id));
             if (!dispatcher::unpack(bytes, profile, learnt)) throw std::invalid_argument("it is no packed profile");
             self.set_profile(id, std::move(profile), learnt);
           },
           "client_id"_a, "packed"_a)
      .def("set_profile",
           [](Dispatcher& self, policy::ClientId id, const nb::sequence& kernels, const nb::dict& rhythm) {
             dispatcher::Timed profile = to_timed(kernels);
             const foresight::Learnt learnt = to_learnt(rhythm);
             const nb::gil_scoped_release release;
             self.set_profile(id, std::move(profile), learnt);
           },
           "client_id"_a, "kernels"_a, "rhythm"_a = nb::dict())
      .def("describe",
           [](Dispatcher& self, policy::ClientId id, std::uint32_t slot, const std::string& name,
              std::uint64_t module_hash, const Triple& grid, const Triple& block, std::uint32_t shared_bytes,
              std::uint32_t kind) {
             self.describe(id, slot, kernel(name, module_hash, grid, block, shared_bytes, kind));
           },
           "client_id"_a, "slot"_a, "name"_a, "module_hash"_a, "grid"_a, "block"_a, "shared_bytes"_a, "kind"_a, released)
      .def("stats",
           [](Dispatcher& self, policy::ClientId id) {
             dispatcher::Stats stats;
             {
               const nb::gil_scoped_release release;
               stats = self.stats(id);
             }
             return to_dict(stats);
           },
           "client_id"_a)
      .def("spent",
           [](Dispatcher& self, policy::ClientId id) {
             tracking::Spent spent;
             {
               const nb::gil_scoped_release release;
               spent = self.spent(id);
             }
             return to_dict(spent);
           },
           "client_id"_a)
      .def("export_profile",
           [](Dispatcher& self, policy::ClientId id) {
             dispatcher::Timed measured;
             {
               const nb::gil_scoped_release release;
               measured = self.measured(id);
             }
             return to_profile(measured);
           },
           "client_id"_a)
      .def("export_rhythm",
           [](Dispatcher& self, policy::ClientId id) {
             foresight::Learnt learnt;
             {
               const nb::gil_scoped_release release;
               learnt = self.learnt(id);
             }
             return to_dict(learnt);
           },
           "client_id"_a)
      .def("idle_moments",
           [](Dispatcher& self, policy::ClientId id) {
             std::vector<dispatcher::Idle> idle;
             {
               const nb::gil_scoped_release release;
               idle = self.idle_moments(id);
             }
             nb::list list;
             for (const dispatcher::Idle& moment : idle) list.append(nb::make_tuple(moment.launches, moment.since_ns));
             return list;
           },
           "client_id"_a)
      .def("journal",
           [](Dispatcher& self, policy::ClientId id) {
             dispatcher::Story story;
             {
               const nb::gil_scoped_release release;
               story = self.journal(id);
             }
             return to_dict(story);
           },
           "client_id"_a)
      .def("stop", &Dispatcher::stop, released);
}

void bind_policy(nb::module_& m) {
  const policy::Options standard;
  nb::class_<ManualPolicy>(m, "Policy")
      .def("__init__",
           [](ManualPolicy* self, const std::string& name, std::int64_t lease_ns, std::int64_t epsilon_ns,
              std::int64_t run_ahead_ns, std::int64_t idle_after_ns, double max_slowdown, std::int64_t max_delay_ns,
              std::int64_t ageing_ns, const nb::dict& tuning, std::optional<std::int64_t> switch_ns, bool overlaps) {
             policy::Options all = options(lease_ns, epsilon_ns, run_ahead_ns, idle_after_ns);
             turn_all(all.tuning, policy::kKnobs, tuning, "unknown constant of the policy");
             all.protection = {.max_slowdown = max_slowdown, .max_delay_ns = max_delay_ns};
             all.ageing_ns = ageing_ns;
             const policy::Device device{.sharing = overlaps ? policy::Sharing::overlap : policy::Sharing::slices,
                                         .switch_ns = switch_ns.value_or(policy::kUnknown)};
             new (self) ManualPolicy(name, all, device);
           },
           "name"_a, nb::kw_only(), "lease_ns"_a = standard.lease_ns, "epsilon_ns"_a = standard.epsilon_ns,
           "run_ahead_ns"_a = standard.run_ahead_ns, "idle_after_ns"_a = standard.idle_after_ns,
           "max_slowdown"_a = standard.protection.max_slowdown, "max_delay_ns"_a = standard.protection.max_delay_ns,
           "ageing_ns"_a = standard.ageing_ns, "tuning"_a = nb::dict(), "switch_ns"_a = 0, "overlaps"_a = false)
      .def("event", &ManualPolicy::event, "kind"_a, "client"_a, "time_ns"_a, nb::kw_only(), "priority"_a = 5,
           "measuring"_a = false, "granted"_a = false, "exclusive"_a = false, "request"_a = 0, "duration_ns"_a = nb::none(),
           "gap_ns"_a = nb::none(), "since_ns"_a = nb::none(), "spread_ns"_a = nb::none(),
           "slack_ns"_a = std::vector<std::int64_t>(), "idle_ns"_a = std::vector<std::int64_t>(),
           "span_ns"_a = nb::none(), "open"_a = false, "run_launches"_a = 1, "run_ns"_a = nb::none(),
           "long_run_launches"_a = 1, "long_run_ns"_a = nb::none(),
           "began_ns"_a = nb::none(), "engine"_a = "compute", "in_line_ns"_a = 0,
           "high_ns"_a = nb::none())
      .def("change_priority", &ManualPolicy::change_priority, "client"_a, "priority"_a, "time_ns"_a)
      .def("held", &ManualPolicy::held, "client"_a)
      .def("index_agrees", &ManualPolicy::index_agrees)
      .def_prop_ro("queue_free_ns", &ManualPolicy::queue_free_ns)
      .def_prop_ro("looks", &ManualPolicy::looks);
  nb::list reasons;
  for (const std::string_view name : policy::kReasonNames) reasons.append(std::string(name));
  m.attr("REASONS") = nb::tuple(reasons);
}

} // namespace
} // namespace fikit::binding

// As Python's own errors of the system are: what fikitd has run out of is told by errno.
void translate(const std::exception_ptr& thrown, void* /*payload*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::system_error& error) {
    const nb::object arguments = nb::make_tuple(error.code().value(), error.what());
    PyErr_SetObject(PyExc_OSError, arguments.ptr());
  }
}

// What the system refuses is an OSError, as Python's own calls raise it: its errno tells what fikitd has run out of.
void as_os_error(const std::exception_ptr& thrown, void* /*payload*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::system_error& error) {
    PyErr_SetObject(PyExc_OSError, nb::make_tuple(error.code().value(), error.what()).ptr());
  }
}

NB_MODULE(_core, m) {
  nb::register_exception_translator(as_os_error);
  m.doc() = "fikitd's native core: policy, predictor, dispatcher.";
  m.attr("BUILD") = nb::str(fikit::binding::kBuild);
  m.attr("MAX_CLIENTS") = fikit::policy::kMaxClients;
  fikit::binding::bind_prediction(m);
  fikit::binding::bind_predictor(m);
  fikit::binding::bind_policy(m);
  fikit::binding::bind_outlook(m);
  fikit::binding::bind_switch_meter(m);
  fikit::binding::bind_time_account(m);
  fikit::binding::bind_packed_profile(m);
  fikit::binding::bind_dispatcher(m);
}
