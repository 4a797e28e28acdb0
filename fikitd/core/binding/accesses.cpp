// What a program's kernels touch, as the profile file has it, in the rhythm: {"version": 1, "pages": [of each allocation], "iterations":
// [{"path", "length_ns", "passes", "kernels": [identity], "steps": [[kernel, duration_ns, scans]], "touches": [[step, allocation, page, count] or
// [step, allocation, page, count, length]], "frees": [[step, allocation, count]], where there are any}]}; a
// kernel is its place in "kernels". profiles.profile_accesses checks what comes from a file.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "convert.hpp"
#include "hex.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace fikit::binding {
namespace {

using predictor::Accesses;
using predictor::AccessesLearnt;
using predictor::Iteration;
using predictor::Step;

template <class... Numbers>
nb::list row(Numbers... numbers) {
  nb::list list;
  (list.append(numbers), ...);
  return list;
}

// pages: how many allocations are known; of one that no launch has named it says nothing that it was given back.
nb::dict to_dict(const Iteration& iteration, std::size_t pages) {
  nb::list kernels;
  nb::list steps;
  nb::list touches;
  nb::list frees;
  std::map<predictor::Identity, std::size_t> place;
  for (std::size_t i = 0; i < iteration.steps.size(); ++i) {
    const Step& step = iteration.steps[i];
    const auto [kernel, is_new] = place.try_emplace(step.kernel, place.size());
    if (is_new) kernels.append(hex(step.kernel));
    steps.append(row(kernel->second, step.duration_ns, step.scans));
    for (const predictor::Touch& touch : step.touches)
      touches.append(touch.length > 0 ? row(i, touch.allocation, touch.page, touch.count, touch.length)
                                      : row(i, touch.allocation, touch.page, touch.count));
    for (const predictor::Free& free : step.frees)
      if (free.allocation < pages) frees.append(row(i, free.allocation, free.count));
  }
  nb::dict dict;
  dict["path"] = hex(iteration.path);
  dict["length_ns"] = iteration.length_ns;
  dict["passes"] = iteration.passes;
  dict["kernels"] = kernels;
  dict["steps"] = steps;
  dict["touches"] = touches;
  if (nb::len(frees) > 0) dict["frees"] = frees;
  return dict;
}

Iteration to_iteration(const nb::dict& dict) {
  Iteration iteration{.path = from_hex(dict["path"]),
                      .length_ns = nb::cast<std::int64_t>(dict["length_ns"]),
                      .passes = nb::cast<std::uint64_t>(dict["passes"]),
                      .steps = {}};
  const auto kernels = nb::cast<nb::list>(dict["kernels"]);
  for (const nb::handle each : nb::cast<nb::list>(dict["steps"])) {
    const auto step = nb::cast<nb::list>(each);
    iteration.steps.push_back({.kernel = from_hex(kernels[nb::cast<std::size_t>(step[0])]),
                               .duration_ns = nb::cast<std::int64_t>(step[1]),
                               .scans = nb::cast<std::uint32_t>(step[2]),
                               .touches = {},
                               .frees = {}});
  }
  for (const nb::handle each : nb::cast<nb::list>(dict["touches"])) {
    const auto touch = nb::cast<nb::list>(each);
    iteration.steps.at(nb::cast<std::size_t>(touch[0]))
        .touches.push_back({.allocation = nb::cast<std::uint32_t>(touch[1]),
                            .page = nb::cast<std::uint32_t>(touch[2]),
                            .count = nb::cast<std::uint32_t>(touch[3]),
                            .length = touch.size() > 4 ? nb::cast<std::uint32_t>(touch[4]) : 0});
  }
  if (dict.contains("frees"))
    for (const nb::handle each : nb::cast<nb::list>(dict["frees"])) {
      const auto free = nb::cast<nb::list>(each);
      iteration.steps.at(nb::cast<std::size_t>(free[0]))
          .frees.push_back({.allocation = nb::cast<std::uint32_t>(free[1]), .count = nb::cast<std::uint32_t>(free[2])});
    }
  return iteration;
}

} // namespace

nb::dict to_dict(const AccessesLearnt& learnt) {
  nb::dict dict;
  if (learnt.iterations.empty()) return dict;
  nb::list iterations;
  for (const Iteration& iteration : learnt.iterations) iterations.append(to_dict(iteration, learnt.pages.size()));
  nb::list pages;
  for (const std::uint32_t each : learnt.pages) pages.append(each);
  dict["version"] = AccessesLearnt::kVersion;
  dict["pages"] = pages;
  dict["iterations"] = iterations;
  return dict;
}

AccessesLearnt to_accesses(const nb::dict& dict) {
  AccessesLearnt learnt;
  if (!dict.contains("version") || nb::cast<int>(dict["version"]) != AccessesLearnt::kVersion) return learnt;
  for (const nb::handle each : nb::cast<nb::list>(dict["pages"])) learnt.pages.push_back(nb::cast<std::uint32_t>(each));
  for (const nb::handle each : nb::cast<nb::list>(dict["iterations"])) learnt.iterations.push_back(to_iteration(nb::cast<nb::dict>(each)));
  return learnt;
}

void bind_accesses(nb::module_& m) {
  nb::class_<Accesses>(m, "Accesses")
      .def(nb::init<>())
      .def("launched", &Accesses::launched, "number"_a, "kernel"_a, "duration_ns"_a)
      .def("waited", &Accesses::waited, "t_ns"_a)
      .def("missed", &Accesses::missed)
      .def("scanned", &Accesses::scanned, "number"_a, "kernel"_a)
      .def("touched", &Accesses::touched, "number"_a, "allocation"_a, "page"_a, "pages"_a, "length"_a = 0)
      .def("freed", &Accesses::freed, "number"_a, "allocation"_a)
      .def("expect", [](Accesses& self, const nb::dict& before) { self.expect(std::make_shared<const AccessesLearnt>(to_accesses(before))); }, "before"_a)
      .def("learnt", [](const Accesses& self) { return to_dict(self.learnt()); })
      .def("known",
           [](const Accesses& self, std::size_t at_once, const nb::object& between) {
             Accesses::Reading reading;
             while (!self.read(reading, std::max<std::size_t>(at_once, 1)))
               if (!between.is_none()) between();
             return to_dict(std::move(reading).known());
           },
           "at_once"_a = Accesses::kMaxLaunches, "between"_a = nb::none())
      .def_prop_ro("path", [](const Accesses& self) { return self.now() == nullptr ? std::string() : hex(self.now()->path); })
      .def_prop_ro("step", &Accesses::step)
      .def_prop_ro("waited_at", &Accesses::waited_at)
      .def_prop_ro("latest_ns", &Accesses::latest_ns);
  m.def(
      "merge_accesses",
      [](const nb::dict& one, const nb::dict& other) {
        AccessesLearnt both = to_accesses(one);
        predictor::merge(both, to_accesses(other));
        return to_dict(both);
      },
      "one"_a, "other"_a);
}

} // namespace fikit::binding
