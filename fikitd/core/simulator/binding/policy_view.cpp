#include "policy_view.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string_view.h>

#include <optional>
#include <string_view>

namespace nb = nanobind;

namespace fikit::simulator {
namespace {

using policy::Client;
using policy::Event;

// A time that may be unknown, as None.
std::optional<std::int64_t> or_none(std::int64_t ns) {
  return ns == policy::kUnknown || ns == policy::kNever || ns == policy::kLongAgo ? std::nullopt : std::optional(ns);
}

template <class Names, class Kind>
std::string_view name(const Names& names, Kind kind) {
  return names[static_cast<std::size_t>(kind)];
}

template <class Class>
auto time(std::int64_t Class::*member) {
  return [member](const Class& self) { return or_none(self.*member); };
}
template <class Class>
auto engine(policy::Engine Class::*member) {
  return [member](const Class& self) { return name(policy::kEngineNames, self.*member); };
}
template <class Value>
auto of(Value Client::*member) {
  return [member](const Seen& self) -> Value { return self.client().*member; };
}
auto time_of(std::int64_t Client::*member) {
  return [member](const Seen& self) { return or_none(self.client().*member); };
}

void bind_values(nb::module_& m) {
  nb::class_<Launches>(m, "Launches")
      .def("__init__",
           [](Launches* self, std::uint32_t launches, std::optional<std::int64_t> work_ns) {
             new (self) Launches{.launches = launches, .work_ns = work_ns.value_or(policy::kUnknown)};
           },
           nb::arg("launches") = 1, nb::arg("work_ns") = nb::none())
      .def_ro("launches", &Launches::launches)
      .def_prop_ro("work_ns", time(&Launches::work_ns));
  using policy::Progress;
  nb::class_<Progress>(m, "Progress")
      .def("busy", &Progress::busy, nb::arg("now_ns"))
      .def("dry_ns", &Progress::dry_ns)
      .def("finish_ns", &Progress::finish_ns)
      .def("uncertain", &Progress::uncertain)
      .def("uncertain_at", &Progress::uncertain_at, nb::arg("now_ns"));
  using policy::Run;
  nb::class_<Run>(m, "Run")
      .def_ro("launches", &Run::launches)
      .def_ro("taken", &Run::taken)
      .def_ro("left_ns", &Run::left_ns)
      .def_ro("granted_ns", &Run::granted_ns)
      .def_ro("next", &Run::next)
      .def_ro("long_next", &Run::long_next);
  using policy::Protection;
  nb::class_<Protection>(m, "Protection")
      .def_ro("max_slowdown", &Protection::max_slowdown)
      .def_prop_ro("max_delay_ns", time(&Protection::max_delay_ns));
  using policy::Options;
  nb::class_<Options>(m, "Options")
      .def_ro("lease_ns", &Options::lease_ns)
      .def_ro("min_gap_ns", &Options::min_gap_ns)
      .def_ro("run_ahead_ns", &Options::run_ahead_ns)
      .def_ro("idle_after_ns", &Options::idle_after_ns)
      .def_ro("protection", &Options::protection)
      .def_ro("starvation_timeout_ns", &Options::starvation_timeout_ns);
}

void bind_events(nb::module_& m) {
  using policy::Outlook;
  nb::class_<Outlook>(m, "Outlook")
      .def_prop_ro("alone_dry_ns", time(&Outlook::alone_dry_ns))
      .def_prop_ro("alone_end_ns", time(&Outlook::alone_end_ns))
      .def_prop_ro("slack", [](const Outlook& self) { return self.slack.ns; })
      .def_prop_ro("idle", [](const Outlook& self) { return self.idle.ns; })
      .def_prop_ro("span_ns", time(&Outlook::span_ns))
      .def_prop_ro("tail_ns", time(&Outlook::tail_ns))
      .def_prop_ro("after_ns", time(&Outlook::after_ns))
      .def_prop_ro("alone_idle_ns", time(&Outlook::alone_idle_ns))
      .def_prop_ro("high_ns", time(&Outlook::high_ns))
      .def_prop_ro("feared_ns", time(&Outlook::feared_ns))
      .def_prop_ro("longest_ns", time(&Outlook::longest_ns))
      .def_ro("run_longer_ns", &Outlook::run_longer_ns)
      .def_ro("in_line_ns", &Outlook::in_line_ns)
      .def_ro("run", &Outlook::run)
      .def_ro("long_run", &Outlook::long_run)
      .def_ro("open", &Outlook::open);
  nb::class_<Event>(m, "Event")
      .def_prop_ro("kind", [](const Event& self) { return name(policy::kEventNames, self.kind); })
      .def_ro("client", &Event::client)
      .def_ro("time_ns", &Event::time_ns)
      .def_prop_ro("since_ns", time(&Event::since_ns))
      .def_prop_ro("spread_ns", time(&Event::spread_ns))
      .def_ro("waited", &Event::waited)
      .def_prop_ro("began_ns", time(&Event::began_ns))
      .def_ro("priority", &Event::priority)
      .def_ro("measuring", &Event::measuring)
      .def_ro("granted", &Event::granted)
      .def_ro("exclusive", &Event::exclusive)
      .def_ro("request", &Event::request)
      .def_prop_ro("engine", engine(&Event::engine))
      .def_prop_ro("duration_ns", time(&Event::duration_ns))
      .def_prop_ro("gap_ns", time(&Event::gap_ns))
      .def_ro("outlook", &Event::outlook);
  using policy::Given;
  nb::class_<Given>(m, "Given")
      .def_prop_ro("kind",
                   [](const Given& self) {
                     static constexpr std::array<std::string_view, 4> kNames{"launches", "more_of_run", "end_of_run", "copy"};
                     return name(kNames, self.kind);
                   })
      .def_ro("client", &Given::client)
      .def_ro("request", &Given::request)
      .def_ro("granted", &Given::granted)
      .def_prop_ro("charged_ns", time(&Given::charged_ns))
      .def_prop_ro("engine", engine(&Given::engine));
}

void bind_client(nb::module_& m) {
  static constexpr std::array<std::string_view, 3> kDecided{"here", "above", "below"};
  nb::class_<Seen>(m, "Client")
      .def_ro("id", &Seen::id)
      .def("__eq__", [](const Seen& self, const Seen& other) { return self.id == other.id; })
      .def("__eq__", [](const Seen&, const nb::object&) { return false; })
      .def("__hash__", [](const Seen& self) { return self.id; })
      .def("__repr__", [](const Seen& self) { return "<" + name_of(self.client()) + ">"; })
      .def_prop_ro("priority", of(&Client::priority))
      .def_prop_ro("protection", of(&Client::protection))
      .def_prop_ro("measuring", of(&Client::measuring))
      .def_prop_ro("overlaps", of(&Client::overlaps))
      .def_prop_ro("user", of(&Client::user))
      .def_prop_ro("job", of(&Client::job))
      .def_prop_ro("stands", of(&Client::stands))
      .def_prop_ro("decided", [](const Seen& self) { return name(kDecided, self.client().decided); })
      .def_prop_ro("at_rest", of(&Client::at_rest))
      .def_prop_ro("waiting", of(&Client::waiting))
      .def_prop_ro("copy", [](const Seen& self) { return name(policy::kEngineNames, self.client().copy); })
      .def_prop_ro("waiting_exclusive", of(&Client::waiting_exclusive))
      .def_prop_ro("exclusive_runs", of(&Client::exclusive_runs))
      .def_prop_ro("waiting_since_ns", of(&Client::waiting_since_ns))
      .def_prop_ro("request", of(&Client::request))
      .def_prop_ro("run_launches", of(&Client::run_launches))
      .def_prop_ro("run_ns", time_of(&Client::run_ns))
      .def_prop_ro("long_run", of(&Client::long_run))
      .def_prop_ro("waiting_duration_ns", time_of(&Client::waiting_duration_ns))
      .def_prop_ro("cautious_ns", time_of(&Client::cautious_ns))
      .def_prop_ro("feared_ns", time_of(&Client::feared_ns))
      .def_prop_ro("longest_ns", time_of(&Client::longest_ns))
      .def_prop_ro("run_longer_ns", of(&Client::run_longer_ns))
      .def_prop_ro("gap_ns", time_of(&Client::gap_ns))
      .def_prop_ro("closed", of(&Client::closed))
      .def_prop_ro("run", of(&Client::run))
      .def_prop_ro("progress", of(&Client::progress))
      .def_prop_ro("grant_count", of(&Client::grant_count))
      .def_prop_ro("at_gate", [](const Seen& self) { return self.client().at_gate(); })
      .def("waits_here", [](const Seen& self) { return self.client().waits_here(); })
      .def("in_flight", [](const Seen& self, std::int64_t now_ns) { return self.client().in_flight(now_ns); }, nb::arg("now_ns"))
      .def("forget_ns", [](const Seen& self) { return or_none(self.client().forget_ns()); })
      .def("outranks", [](const Seen& self, const Seen& other) { return self.client().outranks(other.client()); }, nb::arg("other"))
      .def("goes_before", [](const Seen& self, const Seen& other) { return self.client().goes_before(other.client()); },
           nb::arg("other"));
}

} // namespace

std::string name_of(const Client& client) {
  return "client " + std::to_string(client.id) + " (priority " + std::to_string(client.priority) + ")";
}

void bind_view(nb::module_& m) {
  bind_values(m);
  bind_events(m);
  bind_client(m);
}

} // namespace fikit::simulator
