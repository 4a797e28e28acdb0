// The meter of a GPU's switch, for tests of it alone.
#include "tracking/switching/switch_meter.hpp"

#include <algorithm>
#include <optional>
#include <tuple>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include "parts.hpp"
#include "policy/base/tuning.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace fikit::binding {

void bind_switch_meter(nb::module_& m) {
  using tracking::SwitchMeter;
  nb::class_<SwitchMeter>(m, "SwitchMeter")
      .def(nb::init<double>(), nb::kw_only(), "turn_ns"_a = policy::Tuning{}.turn_ns)
      .def("began",
           [](SwitchMeter& self, std::uint32_t client, int level, std::int64_t lateness_ns, bool changed, bool idle, int by) {
             self.began({.client = client, .level = std::max(level, by), .own_level = level, .changed = changed, .idle = idle,
                         .late_ns = lateness_ns});
           },
           "client"_a, "level"_a, "lateness_ns"_a, "changed"_a, nb::kw_only(), "idle"_a = true, "by"_a = 0)
      .def("cost",
           [](const SwitchMeter& self, int level) -> std::optional<std::tuple<std::int64_t, std::int64_t, std::uint32_t>> {
             const auto cost = self.cost(level);
             if (!cost) return std::nullopt;
             return std::tuple(cost->switch_ns, cost->spread_ns, cost->count);
           },
           "level"_a = SwitchMeter::kLowest);
}

} // namespace fikit::binding
