// fikitd._simulator: the simulator as Python sees it. Typed in fikitd/fikitd/_simulator.pyi. A module of its own, so that
// the daemon never loads the emulator's device model.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "alone.hpp"
#include "binding/tuning_fields.hpp"
#include "learn.hpp"
#include "python_policy.hpp"
#include "simulation.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace fikit::simulator {
namespace {

Knowledge knowledge_of(const std::string& name) {
  if (name == "context") return Knowledge::context;
  if (name == "kernel") return Knowledge::kernel;
  if (name == "truth") return Knowledge::truth;
  throw nb::value_error("unknown knowledge, use context, kernel or truth");
}

emu::Sharing sharing_of(const std::string& name) {
  if (name == "slices") return emu::Sharing::slices;
  if (name == "mps") return emu::Sharing::mps;
  if (name == "merged") return emu::Sharing::merged;
  throw nb::value_error("unknown sharing, use slices, mps or merged");
}

emu::MpsModel mps_model_of(const std::string& name) {
  if (name == "proportion") return emu::MpsModel::proportion;
  if (name == "admission") return emu::MpsModel::admission;
  throw nb::value_error("unknown model of MPS, use proportion or admission");
}

nb::dict results_of(const Job& job) {
  nb::list requests;
  for (const Request& request : job.requests()) requests.append(nb::make_tuple(request.arrival_ns, request.end_ns));
  nb::dict result;
  result["requests"] = requests;
  result["kernels"] = job.kernels();
  result["grants"] = job.granted();
  result["device_ns"] = job.device_ns();
  result["work_ns"] = job.work_ns();
  return result;
}

nb::dict split_of(const Split& split, bool first_runs) {
  nb::dict result;
  for (std::size_t state = 0; state < Split::kStates; ++state) {
    const std::string name(Split::name(state));
    if (const std::int64_t ns = split.ns(state, first_runs); ns > 0) result[name.c_str()] = ns;
  }
  return result;
}

nb::dict simulate(const Setup& setup, const std::vector<JobOptions>& jobs, std::size_t requests, std::int64_t until_ns) {
  constexpr std::int64_t kLookNs = 1'000'000'000; // of manual time: so often Ctrl-C is heard
  Simulation simulation(setup, jobs);
  while (simulation.job(0).requests().size() < requests && simulation.now_ns() < until_ns) {
    if (setup.make) { // its policy is Python
      simulation.run(requests, std::min(until_ns, simulation.now_ns() + kLookNs));
    } else {
      const nb::gil_scoped_release release;
      simulation.run(requests, std::min(until_ns, simulation.now_ns() + kLookNs));
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  nb::list results;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    nb::dict found = results_of(simulation.job(i));
    if (setup.splits && i > 0) {
      found["free"] = split_of(simulation.split(i), false);
      found["below"] = split_of(simulation.split(i), true);
    }
    results.append(found);
  }
  nb::dict result;
  result["span_ns"] = simulation.now_ns();
  result["grants"] = simulation.adapter().grants();
  result["decisions"] = simulation.adapter().decided();
  result["mispredicted_p99_ns"] = simulation.adapter().misprediction().quantile_ns(0.99);
  result["jobs"] = results;
  const policy::Device& seen = simulation.adapter().device();
  result["switch"] = seen.switch_ns < 0 ? nb::none() : nb::object(nb::make_tuple(seen.switch_ns, seen.spread_ns, seen.samples));
  return result;
}

// Of each piece of work of a pass: has the host waited for the device since the one before it?
std::vector<bool> waits_before(const Trace& trace) {
  std::vector<bool> found;
  bool waits = true;
  for (const replay::Step& step : trace.plan().steps) {
    if (step.event->kind != replay::EventKind::synchronize) {
      found.push_back(waits);
      waits = false;
    }
    waits = waits || step.waits;
  }
  return found;
}

constexpr policy::TuningField<Reactions, std::vector<std::int64_t>> kReactions[] = {
    {"observe", &Reactions::observe_ns},
    {"wake", &Reactions::wake_ns},
    {"done", &Reactions::done_ns},
    {"late", &Reactions::late_ns},
    {"turn", &Reactions::turn_ns},
};

Reactions seen_of(const nb::dict& times, std::uint32_t draw) {
  Reactions seen;
  seen.draw = draw;
  binding::turn_all(seen, kReactions, times, "unknown reaction, use observe, wake, done, late or turn");
  return seen;
}

constexpr policy::TuningField<policy::Options, std::int64_t> kTerms[] = {
    {"lease_ns", &policy::Options::lease_ns},
    {"min_gap_ns", &policy::Options::min_gap_ns},
    {"run_ahead_ns", &policy::Options::run_ahead_ns},
    {"idle_after_ns", &policy::Options::idle_after_ns},
    {"starvation_timeout_ns", &policy::Options::starvation_timeout_ns},
};

policy::Options options_of(const nb::dict& terms) {
  policy::Options options;
  binding::turn_all(options, kTerms, terms, "unknown time of the scheduler");
  return options;
}

policy::Tuning tuning_of(const nb::dict& constants) {
  policy::Tuning tuning;
  binding::turn_all(tuning, policy::kTuningFields, constants, "unknown constant of the policy");
  return tuning;
}

void bind(nb::module_& m) {
  nb::class_<Trace>(m, "Trace")
      .def(nb::init<const std::string&, double>(), "text"_a, "stretch"_a = 1.0)
      .def_prop_ro("kernels", &Trace::kernels)
      .def("on", [](const Trace& self, std::int64_t latency_ns, std::int64_t gap_ns) { return self.on(latency_ns, gap_ns).release(); },
           "launch_latency_ns"_a = kRecorded, "kernel_gap_ns"_a = kRecorded, nb::rv_policy::take_ownership)
      .def_prop_ro("launch_latency_ns", [](const Trace& self) { return self.plan().launch_latency_ns; })
      .def_prop_ro("kernel_gap_ns", [](const Trace& self) { return self.plan().kernel_gap_ns; })
      .def_prop_ro("waits_before", &waits_before)
      .def_prop_ro("recorded_span_ns", [](const Trace& self) { return self.recording().span_ns(); });

  nb::class_<Profile>(m, "Profile"); // NOLINT(bugprone-unused-raii): the registration is its constructor
  m.def(
      "learn",
      [](const Trace& trace, std::size_t passes, std::int64_t until_ns, bool stored, bool fills, const nb::dict& tuning,
         std::int64_t timing_ns) {
        const policy::Tuning constants = tuning_of(tuning);
        const nb::gil_scoped_release released;
        return learn(trace, passes, until_ns, stored, fills, constants, timing_ns);
      },
      "trace"_a, "passes"_a, "until_ns"_a = kNever, nb::kw_only(), "stored"_a = false, "fills"_a = true, "tuning"_a = nb::dict(),
      "timing_ns"_a = 0);

  nb::class_<JobOptions>(m, "Job")
      .def("__init__",
           [](JobOptions* self, const Trace& trace, int priority, const Profile* profile, bool rhythm,
              bool runs, bool managed, bool tells_ends, bool fills, bool thinks, double weight, int mps_priority,
              const std::vector<std::int64_t>& arrivals) {
             new (self) JobOptions{.trace = &trace,
                                   .priority = priority,
                                   .profile = profile,
                                   .rhythm = rhythm,
                                   .runs = runs,
                                   .managed = managed,
                                   .tells_ends = tells_ends,
                                   .fills = fills,
                                   .thinks = thinks,
                                   .membership = {.mps = false, .priority = mps_priority, .weight = weight},
                                   .arrivals = arrivals};
           },
           "trace"_a, nb::kw_only(), "priority"_a, "profile"_a = nb::none(), "rhythm"_a = true, "runs"_a = true,
           "managed"_a = true, "tells_ends"_a = true, "fills"_a = true, "thinks"_a = true, "weight"_a = 1.0, "mps_priority"_a = 0, "arrivals"_a = std::vector<std::int64_t>(), nb::keep_alive<1, 2>(), nb::keep_alive<1, 4>());

  const Device usual;
  nb::class_<Device>(m, "Device")
      .def("__init__",
           [](Device* self, const std::string& sharing, std::int64_t slice_ns, std::int64_t switch_ns, const std::string& mps_model,
              std::int64_t mps_switch_ns, double overlap_slowdown, bool idle_holds, std::int64_t launch_latency_ns,
              std::int64_t kernel_gap_ns) {
             new (self) Device{.sharing = sharing_of(sharing),
                               .slice_ns = slice_ns,
                               .switch_ns = switch_ns,
                               .mps_model = mps_model_of(mps_model),
                               .mps_switch_ns = mps_switch_ns,
                               .overlap_slowdown = overlap_slowdown,
                               .idle_holds = idle_holds,
                               .launch_latency_ns = launch_latency_ns,
                               .kernel_gap_ns = kernel_gap_ns};
           },
           "sharing"_a = "slices", nb::kw_only(), "slice_ns"_a = usual.slice_ns, "switch_ns"_a = usual.switch_ns,
           "mps_model"_a = "proportion", "mps_switch_ns"_a = usual.mps_switch_ns,
           "overlap_slowdown"_a = usual.overlap_slowdown, "idle_holds"_a = usual.idle_holds,
           "launch_latency_ns"_a = usual.launch_latency_ns, "kernel_gap_ns"_a = usual.kernel_gap_ns)
      .def_ro("slice_ns", &Device::slice_ns)
      .def_ro("switch_ns", &Device::switch_ns);

  const Costs standard;
  nb::class_<Costs>(m, "Costs")
      .def("__init__",
           [](Costs* self, std::int64_t launch_ns, std::int64_t observe_ns, std::int64_t wake_ns, std::int64_t done_ns,
              std::int64_t late_ns) {
             new (self) Costs{launch_ns, observe_ns, wake_ns, done_ns, late_ns};
           },
           nb::kw_only(), "launch_ns"_a = standard.launch_ns, "observe_ns"_a = standard.observe_ns,
           "wake_ns"_a = standard.wake_ns, "done_ns"_a = standard.done_ns, "late_ns"_a = standard.late_ns)
      .def_ro("launch_ns", &Costs::launch_ns)
      .def_ro("observe_ns", &Costs::observe_ns)
      .def_ro("wake_ns", &Costs::wake_ns)
      .def_ro("done_ns", &Costs::done_ns)
      .def_ro("late_ns", &Costs::late_ns);

  const policy::Protection standard_protection;
  m.def(
      "simulate",
      [](const nb::object& policy, const std::vector<JobOptions>& jobs, std::size_t requests, const Costs& costs,
         const std::string& knowledge, const Device& device, std::int64_t until_ns, double max_slowdown, std::int64_t max_delay_ns,
         const nb::dict& tuning, const nb::dict& scheduler, std::uint32_t marker_interval, bool splits, std::int64_t lead_ns,
         const nb::dict& seen, std::uint32_t draw) {
        policy::Options options = options_of(scheduler);
        options.protection = {.max_slowdown = max_slowdown, .max_delay_ns = max_delay_ns};
        options.tuning = tuning_of(tuning);
        const bool named = nb::isinstance<nb::str>(policy);
        const Setup setup{.policy = named ? nb::cast<std::string>(policy) : "",
                          .make = named ? nullptr : python_policy(policy),
                          .options = options,
                          .marker_interval = marker_interval,
                          .knowledge = knowledge_of(knowledge),
                          .costs = costs,
                          .seen = seen_of(seen, draw),
                          .device = device,
                          .lead_ns = lead_ns,
                          .splits = splits};
        return simulate(setup, jobs, requests, until_ns);
      },
      "policy"_a, "jobs"_a, nb::kw_only(), "requests"_a, "costs"_a, "knowledge"_a = "context",
      "device"_a = Device{}, "until_ns"_a = kNever,
      "max_slowdown"_a = standard_protection.max_slowdown, "max_delay_ns"_a = standard_protection.max_delay_ns,
      "tuning"_a = nb::dict(), "scheduler"_a = nb::dict(), "marker_interval"_a = 0, "splits"_a = false, "lead_ns"_a = 0, "seen"_a = nb::dict(), "draw"_a = 1);
  nb::list names;
  for (const std::string_view name : policy::policy_names()) names.append(std::string(name));
  m.attr("NEVER") = kNever;
  m.attr("POLICIES") = nb::tuple(names);
  nb::dict tuning;
  for (const auto& field : policy::kTuningFields) tuning[field.name] = policy::Tuning{}.*(field.at);
  m.attr("TUNING") = tuning;
  bind_policy(m);
  bind_alone(m);
}

} // namespace
} // namespace fikit::simulator

NB_MODULE(_simulator, m) {
  m.doc() = "fikitd's policies and predictor on the emulator's device model, in manual time.";
  fikit::simulator::bind(m);
}
