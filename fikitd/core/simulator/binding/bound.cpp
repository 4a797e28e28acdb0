#include "bound.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <vector>

#include "../bound.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace fikit::simulator {

void bind_bound(nb::module_& m) {
  nb::class_<Interval>(m, "Interval")
      .def("__init__",
           [](Interval* self, std::int64_t end_ns, std::int64_t work_ns, std::int64_t tail_ns, double weight) {
             new (self) Interval{.end_ns = end_ns, .paying_end_ns = end_ns, .work_ns = work_ns, .tail_ns = tail_ns, .weight = weight};
           },
           "end_ns"_a, "work_ns"_a, "tail_ns"_a = 0, "weight"_a = 1.0)
      .def_ro("end_ns", &Interval::end_ns)
      .def_ro("work_ns", &Interval::work_ns)
      .def_ro("tail_ns", &Interval::tail_ns)
      .def_ro("weight", &Interval::weight);
  nb::class_<LowKernel>(m, "LowKernel")
      .def("__init__",
           [](LowKernel* self, std::int64_t length_ns, std::int64_t pause_ns) {
             new (self) LowKernel{.length_ns = length_ns, .pause_ns = pause_ns};
           },
           "length_ns"_a, "pause_ns"_a = 0)
      .def_ro("length_ns", &LowKernel::length_ns)
      .def_ro("pause_ns", &LowKernel::pause_ns);
  nb::class_<AloneHigh>(m, "AloneHigh") // NOLINT(bugprone-unused-raii): the registration is its constructor
      .def_ro("intervals", &AloneHigh::intervals)
      .def_ro("span_ns", &AloneHigh::span_ns)
      .def_ro("response_ns", &AloneHigh::response_ns);
  m.def("alone_high", &alone_high, "trace"_a, "requests"_a, "arrivals"_a, nb::call_guard<nb::gil_scoped_release>());
  m.def("alone_low", &alone_low, "trace"_a, "high"_a, nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "most_work_ns",
      [](const std::vector<Interval>& high, const std::vector<LowKernel>& low, double price, std::int64_t longest_delay_ns) {
        if (high.empty() || low.empty()) throw nb::value_error("a bound needs intervals and kernels");
        if (!(price >= 1) || longest_delay_ns < 0) throw nb::value_error("a price is at least 1, a delay not negative");
        const bool moves = std::any_of(low.begin(), low.end(), [](const LowKernel& kernel) { return kernel.length_ns > 0; });
        if (!moves) throw nb::value_error("all kernels of the low job have no length");
        const nb::gil_scoped_release release;
        return most_work_ns(high, low, price, longest_delay_ns);
      },
      "high"_a, "low"_a, "price"_a, "longest_delay_ns"_a);
}

} // namespace fikit::simulator
