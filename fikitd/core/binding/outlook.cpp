#include "outlook.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "convert.hpp"
#include "parts.hpp"
#include "predictor/copies.hpp"
#include "predictor/rhythm.hpp"
#include "predictor/runs.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace fikit::binding {

TimeQuantiles times(const std::vector<std::int64_t>& ns) {
  TimeQuantiles times;
  if (ns.size() == 1) times.ns.fill(ns.front());
  else if (ns.size() == TimeQuantiles::kCount) std::copy(ns.begin(), ns.end(), times.ns.begin());
  else if (!ns.empty()) throw nb::value_error("eight times, one for all eight, or none");
  return times;
}

void bind_outlook(nb::module_& m) {
  m.def(
      "mean_before",
      [](const std::vector<std::int64_t>& ns, std::int64_t from_ns, std::int64_t until_ns) {
        return policy::ResidualTime(times(ns), from_ns).mean_before(until_ns);
      },
      "times"_a, "from_ns"_a, "until_ns"_a);

  nb::class_<predictor::Rhythm> rhythm(m, "Rhythm");
  rhythm.def(nb::init<>())
      .def(
          "launched",
          [](predictor::Rhythm& self, std::int64_t t_ns, predictor::Identity identity, std::int64_t duration_ns,
             std::int64_t in_line_ns) { return self.launched(t_ns, identity, duration_ns, in_line_ns).slack.ns; },
          "time_ns"_a, "identity"_a, "duration_ns"_a, "in_line_ns"_a = 0)
      .def("any_slack", [](const predictor::Rhythm& self) { return self.any_slack().ns; })
      .def("set_long_idle", &predictor::Rhythm::set_long_idle, "ns"_a)
      .def(
          "waited",
          [](predictor::Rhythm& self, std::int64_t t_ns, bool alone, std::optional<std::int64_t> began_ns) {
            const predictor::Pause pause = self.waited(t_ns, alone, began_ns.value_or(kLongAgo));
            nb::dict dict;
            dict["span_ns"] = pause.span_ns;
            dict["tail_ns"] = pause.tail_ns;
            dict["after_ns"] = pause.after_ns == kLongAgo ? nb::none() : nb::object(nb::int_(pause.after_ns));
            dict["slack_ns"] = pause.slack.ns;
            dict["idle_ns"] = pause.idle.ns;
            dict["open"] = pause.open;
            dict["end_ns"] = pause.end_ns == kLongAgo ? nb::none() : nb::object(nb::int_(pause.end_ns));
            return dict;
          },
          "time_ns"_a, "alone"_a, "began_ns"_a = nb::none());

  rhythm.def("expect", [](predictor::Rhythm& self, const nb::dict& before) { self.expect(to_learnt(before).rhythm); }, "before"_a)
      .def("learnt", [](const predictor::Rhythm& self) { return to_dict(forecaster::Learnt{.rhythm = self.learnt(), .runs = {}, .accesses = {}}); });

  nb::class_<predictor::Copies>(m, "Copies")
      .def(nb::init<>())
      .def("copied", [](predictor::Copies& self, std::int64_t t_ns, std::uint64_t bytes) { return self.copied(t_ns, bytes).ns; },
           "time_ns"_a, "bytes"_a)
      .def("took", &predictor::Copies::took, "bytes"_a, "ns"_a)
      .def("expected_ns", &predictor::Copies::expected_ns, "bytes"_a);

  nb::class_<predictor::Runs>(m, "Runs")
      .def(nb::init<>())
      .def("launched", &predictor::Runs::launched, "identity"_a, "duration_ns"_a)
      .def("waited", &predictor::Runs::waited)
      .def(
          "starting",
          [](const predictor::Runs& self, predictor::Identity identity, std::int64_t duration_ns) {
            const Launches run = self.starting(identity, duration_ns).run;
            return std::pair(run.launches, run.work_ns);
          },
          "identity"_a, "duration_ns"_a)
      .def(
          "starting_long",
          [](const predictor::Runs& self, predictor::Identity identity, std::int64_t duration_ns) {
            const Launches run = self.starting(identity, duration_ns).long_run;
            return std::pair(run.launches, run.work_ns);
          },
          "identity"_a, "duration_ns"_a)
      .def("expect", [](predictor::Runs& self, const nb::dict& before) { self.expect(to_learnt(before).runs); }, "before"_a)
      .def("learnt",
           [](const predictor::Runs& self) { return to_dict(forecaster::Learnt{.rhythm = {}, .runs = self.learnt(), .accesses = {}}); });
}

} // namespace fikit::binding
