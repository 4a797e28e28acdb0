#include "alone.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include "../alone.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace fikit::simulator {

void bind_alone(nb::module_& m) {
  nb::class_<Interval>(m, "Interval")
      .def("__init__",
           [](Interval* self, std::int64_t end_ns, std::int64_t work_ns, std::int64_t tail_ns) {
             new (self) Interval{.end_ns = end_ns, .work_ns = work_ns, .tail_ns = tail_ns};
           },
           "end_ns"_a, "work_ns"_a, "tail_ns"_a = 0)
      .def_ro("end_ns", &Interval::end_ns)
      .def_ro("work_ns", &Interval::work_ns)
      .def_ro("tail_ns", &Interval::tail_ns);
  nb::class_<Alone>(m, "Alone") // NOLINT(bugprone-unused-raii): the registration is its constructor
      .def_ro("intervals", &Alone::intervals)
      .def_ro("span_ns", &Alone::span_ns)
      .def_ro("response_ns", &Alone::response_ns);
  m.def("alone", &alone, "trace"_a, "requests"_a, "arrivals"_a, nb::call_guard<nb::gil_scoped_release>());
}

} // namespace fikit::simulator
