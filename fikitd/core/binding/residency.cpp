// fikitd._residency: whose memory is on the GPU, as Python sees it. Typed in fikitd/fikitd/_residency.pyi.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "residency/budget.hpp"
#include "residency/epochs.hpp"
#include "residency/lane.hpp"
#include "residency/link.hpp"
#include "residency/sequence.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace fikit::residency {
namespace {

void bind_link(nb::module_& m) {
  nb::class_<Link>(m, "Link")
      .def("__init__",
           [](Link* self, double in_bytes_per_s, std::optional<double> out_bytes_per_s, std::int64_t lead_ns) {
             new (self) Link{.in_bytes_per_s = in_bytes_per_s, .out_bytes_per_s = out_bytes_per_s.value_or(in_bytes_per_s), .lead_ns = lead_ns};
           },
           "in_bytes_per_s"_a = Link{}.in_bytes_per_s, "out_bytes_per_s"_a = nb::none(), "lead_ns"_a = 0)
      .def_ro("in_bytes_per_s", &Link::in_bytes_per_s)
      .def_ro("out_bytes_per_s", &Link::out_bytes_per_s)
      .def_ro("lead_ns", &Link::lead_ns)
      .def_prop_ro("both_bytes_per_s", &Link::both_bytes_per_s)
      .def("times", &Link::times, "factor"_a)
      .def("__eq__", [](const Link& self, const nb::object& other) { return nb::isinstance<Link>(other) && self == nb::cast<const Link&>(other); })
      .def("__hash__", [](const Link& self) { return nb::hash(nb::make_tuple(self.in_bytes_per_s, self.out_bytes_per_s, self.lead_ns)); })
      .def("__repr__", [](const Link& self) {
        return "Link(in_bytes_per_s=" + std::to_string(self.in_bytes_per_s) + ", out_bytes_per_s=" + std::to_string(self.out_bytes_per_s) +
               ", lead_ns=" + std::to_string(self.lead_ns) + ")";
      });
}

void bind_epochs(nb::module_& m) {
  nb::class_<Tenant>(m, "Tenant")
      .def("__init__",
           [](Tenant* self, std::int64_t bytes, std::int64_t resident_bytes, double work, std::int64_t waited_ns, bool runs,
              std::int64_t ran_ns) {
             new (self) Tenant{
                 .bytes = bytes, .resident_bytes = resident_bytes, .work = work, .waited_ns = waited_ns, .runs = runs, .ran_ns = ran_ns};
           },
           "bytes"_a, "resident_bytes"_a = 0, "work"_a = 1.0, "waited_ns"_a = 0, "runs"_a = false, "ran_ns"_a = 0)
      .def_ro("bytes", &Tenant::bytes)
      .def_ro("resident_bytes", &Tenant::resident_bytes)
      .def_ro("work", &Tenant::work)
      .def_ro("waited_ns", &Tenant::waited_ns)
      .def_ro("runs", &Tenant::runs)
      .def_ro("ran_ns", &Tenant::ran_ns);
  nb::class_<EpochRules>(m, "EpochRules")
      .def("__init__",
           [](EpochRules* self, const Link& link, std::int64_t beside_ns, double most_lost, double hysteresis, std::int64_t least_epoch_ns, std::int64_t patience_ns,
              std::int64_t max_wait_ns) {
             new (self) EpochRules{.link = link,
                                   .beside_ns = beside_ns,
                                   .most_lost = most_lost,
                                   .hysteresis = hysteresis,
                                   .least_epoch_ns = least_epoch_ns,
                                   .patience_ns = patience_ns,
                                   .max_wait_ns = max_wait_ns};
           },
           nb::kw_only(), "link"_a = EpochRules{}.link, "beside_ns"_a = EpochRules{}.beside_ns, "most_lost"_a = EpochRules{}.most_lost,
           "hysteresis"_a = EpochRules{}.hysteresis, "least_epoch_ns"_a = EpochRules{}.least_epoch_ns,
           "patience_ns"_a = EpochRules{}.patience_ns, "max_wait_ns"_a = EpochRules{}.max_wait_ns)
      .def_ro("link", &EpochRules::link)
      .def_ro("beside_ns", &EpochRules::beside_ns)
      .def_ro("most_lost", &EpochRules::most_lost)
      .def_ro("hysteresis", &EpochRules::hysteresis)
      .def_ro("least_epoch_ns", &EpochRules::least_epoch_ns)
      .def_ro("patience_ns", &EpochRules::patience_ns)
      .def_ro("max_wait_ns", &EpochRules::max_wait_ns);
  // `inward`, because `in` is a word of Python's.
  nb::class_<Move>(m, "Move")
      .def_ro("tenant", &Move::tenant)
      .def_ro("bytes", &Move::bytes)
      .def_ro("inward", &Move::in)
      .def_ro("ahead", &Move::ahead);
  nb::class_<Epoch>(m, "Epoch")
      .def_prop_ro("runs",
                   [](const Epoch& self) {
                     std::vector<std::size_t> found;
                     for (std::size_t i = 0; i < self.runs.size(); ++i)
                       if (self.runs[i]) found.push_back(i);
                     return found;
                   })
      .def_ro("moves", &Epoch::moves)
      .def_ro("swap_ns", &Epoch::swap_ns)
      .def_ro("length_ns", &Epoch::length_ns);
  m.def(
      "next_epoch",
      [](const EpochRules& rules, std::int64_t room_bytes, const std::vector<Tenant>& tenants) { return next_epoch(rules, room_bytes, tenants); },
      "rules"_a, "room_bytes"_a, "tenants"_a);
  m.def("longest_wait_ns", &longest_wait_ns, "rules"_a, "room_bytes"_a, "tenants"_a);
}

void bind_budget(nb::module_& m) {
  nb::class_<Sequence>(m, "Sequence")
      .def(nb::init<>())
      .def(
          "add",
          [](Sequence& self, std::int64_t duration_ns, const std::vector<Chunk>& touched, const std::vector<Chunk>& freed) {
            self.add(duration_ns, touched, freed);
          },
          "duration_ns"_a, "touched"_a, "freed"_a = std::vector<Chunk>{})
      .def_prop_ro("kernels", &Sequence::kernels)
      .def_prop_ro("chunks", &Sequence::chunks)
      .def_prop_ro("total_ns", &Sequence::total_ns);
  nb::class_<Lane>(m, "Lane")
      .def(nb::init<std::int64_t>(), "period_ns"_a)
      .def("earliest", &Lane::earliest, "from_ns"_a, "until_ns"_a, "length_ns"_a)
      .def("latest", &Lane::latest, "from_ns"_a, "until_ns"_a, "length_ns"_a)
      .def("take", &Lane::take, "begin_ns"_a, "length_ns"_a)
      .def("give_back", &Lane::give_back, "begin_ns"_a, "length_ns"_a);
  nb::class_<Transfer>(m, "Transfer")
      .def_ro("chunk", &Transfer::chunk)
      .def_ro("inward", &Transfer::in)
      .def_ro("kernel", &Transfer::kernel)
      .def_ro("delay_ns", &Transfer::delay_ns)
      .def_ro("begin_ns", &Transfer::begin_ns);
  nb::class_<BudgetPlan>(m, "BudgetPlan")
      .def_ro("transfers", &BudgetPlan::transfers)
      .def_ro("peak_bytes", &BudgetPlan::peak_bytes)
      .def_ro("moved_bytes", &BudgetPlan::moved_bytes)
      .def_ro("stretch", &BudgetPlan::stretch)
      .def_ro("fits", &BudgetPlan::fits)
      .def_ro("steady", &BudgetPlan::steady);
  m.def("plan", &plan, "sequence"_a, "link"_a, "chunk_bytes"_a, "budget_bytes"_a);
  m.def("peak_bytes", &peak_bytes, "sequence"_a, "chunk_bytes"_a);
  m.def("least_bytes", &least_bytes, "sequence"_a, "chunk_bytes"_a);
}

void bind_again(nb::module_& m) {
  nb::enum_<Again>(m, "Again").value("NO", Again::no).value("DRIFT", Again::drift).value("MISSES", Again::misses).value("BUDGET", Again::budget);
  m.def(
      "plan_again",
      [](std::int64_t planned_iteration_ns, std::int64_t planned_budget_bytes, std::int64_t iteration_ns, std::int64_t touched_bytes,
         std::int64_t missed_bytes, std::int64_t budget_bytes) {
        return plan_again({.iteration_ns = planned_iteration_ns, .budget_bytes = planned_budget_bytes},
                          {.iteration_ns = iteration_ns, .touched_bytes = touched_bytes, .missed_bytes = missed_bytes, .budget_bytes = budget_bytes});
      },
      nb::kw_only(), "planned_iteration_ns"_a, "planned_budget_bytes"_a, "iteration_ns"_a, "touched_bytes"_a, "missed_bytes"_a, "budget_bytes"_a);
  m.def(
      "share_room",
      [](const std::vector<std::vector<std::pair<std::int64_t, double>>>& jobs, std::int64_t room_bytes) {
        std::vector<std::vector<Point>> points;
        for (const auto& job : jobs) {
          points.emplace_back();
          for (const auto& [bytes, lost] : job) points.back().push_back({.bytes = bytes, .lost = lost});
        }
        return share_room(points, room_bytes);
      },
      "jobs"_a, "room_bytes"_a);
}

} // namespace
} // namespace fikit::residency

NB_MODULE(_residency, m) {
  nb::set_leak_warnings(false); // rules that a module of Python keeps to its end are no leak
  fikit::residency::bind_link(m); // the rules have one as a default
  fikit::residency::bind_epochs(m);
  fikit::residency::bind_budget(m);
  fikit::residency::bind_again(m);
}
