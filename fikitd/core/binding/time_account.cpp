// The account of a client's time, and whether its host had a core, for tests of them alone.
#include "tracking/accounting/time_account.hpp"

#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>

#include <functional>
#include <optional>

#include "convert.hpp"
#include "parts.hpp"
#include "tracking/accounting/host_cores.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace fikit::binding {

void bind_time_account(nb::module_& m) {
  using tracking::HostCores;
  using tracking::JobWork;
  using tracking::TimeAccount;
  using Read = std::function<std::int64_t()>;
  nb::class_<HostCores>(m, "HostCores")
      .def(nb::init<>())
      .def("all_done", &HostCores::all_done<Read>, "time_ns"_a, "now_ns"_a, "read"_a)
      .def("launched", &HostCores::launched<Read>, "time_ns"_a, "now_ns"_a, "read"_a);
  nb::class_<JobWork>(m, "JobWork").def(nb::init<>());
  nb::class_<TimeAccount>(m, "TimeAccount")
      .def(
          "__init__",
          [](TimeAccount* self, std::int64_t time_ns, JobWork* job, bool measured, bool overlaps) {
            new (self) TimeAccount(time_ns, {.job = job, .measured = measured, .overlaps = overlaps});
          },
          "time_ns"_a, "job"_a.none() = nb::none(), "measured"_a = false, "overlaps"_a = false, nb::keep_alive<1, 3>())
      .def("at_gate", &TimeAccount::at_gate, "time_ns"_a)
      .def("left_gate",
           [](TimeAccount& self, std::int64_t time_ns) {
             self.left_gate(time_ns);
             return self.take_gate_cost(time_ns);
           },
           "time_ns"_a)
      .def("launched",
           [](TimeAccount& self, std::int64_t time_ns, std::optional<std::int64_t> work_ns, std::optional<std::int64_t> gap_ns,
              std::uint64_t others, bool under_way, std::int64_t no_core_ns) {
             self.launched({.t_ns = time_ns,
                            .work_ns = work_ns.value_or(kUnknown),
                            .gap_ns = gap_ns.value_or(kUnknown),
                            .no_core_ns = no_core_ns},
                           {.kernels = others, .under_way = under_way});
           },
           "time_ns"_a, "work_ns"_a.none(), "gap_ns"_a.none(), "others"_a = 0, nb::kw_only(), "under_way"_a = false,
           "no_core_ns"_a = 0)
      .def("complete",
           [](TimeAccount& self, std::int64_t time_ns, std::optional<std::int64_t> began_ns, std::int64_t left_ns, bool all,
              std::uint64_t others, bool under_way) {
             self.complete({.t_ns = time_ns, .began_ns = began_ns.value_or(kLongAgo), .left_ns = left_ns, .all = all},
                           {.kernels = others, .under_way = under_way});
           },
           "time_ns"_a, "began_ns"_a.none() = nb::none(), nb::kw_only(), "left_ns"_a = 0, "all"_a = true, "others"_a = 0,
           "under_way"_a = false)
      .def("grant_done", &TimeAccount::grant_done, "time_ns"_a)
      .def("stood", &TimeAccount::stood, "since_ns"_a, "until_ns"_a)
      .def("lost", &TimeAccount::lost)
      .def("spent",
           [](const TimeAccount& self, std::int64_t time_ns, std::uint64_t others) {
             return to_dict(self.spent(time_ns, {.kernels = others}));
           },
           "time_ns"_a, "others"_a = 0);
}

} // namespace fikit::binding
