// fikitd._placement: which jobs share a GPU, as Python sees it. Typed in fikitd/fikitd/_placement.pyi.
#include "placement/offer.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "placement/history.hpp"
#include "placement/precedence.hpp"
#include "placement/queue.hpp"
#include "placement/share.hpp"
#include "placement/slowdowns.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace fikit::placement {
namespace {

std::vector<double> rates_of(const Slowdowns& slowdowns, Priorities priorities, const std::vector<std::pair<double, int>>& jobs) {
  if (jobs.size() > kMostResidents) throw std::invalid_argument("at most 16 jobs on one GPU");
  if (priorities == Priorities::automatic) throw std::invalid_argument("AUTOMATIC is a choice between the two that have rates");
  std::vector<Load> loads;
  for (const auto& [busy, kind] : jobs) {
    if (!(busy >= 0 && busy <= 1)) throw std::invalid_argument("a busy share is from 0 to 1");
    loads.push_back({.busy = busy, .kind = kind});
  }
  std::vector<double> rates(loads.size());
  if (!loads.empty()) slowdowns.rates(priorities, loads, rates);
  return rates;
}

std::vector<double> ends_of(const Slowdowns& slowdowns, Priorities priorities, const std::vector<Resident>& jobs) {
  if (jobs.size() > kMostResidents) throw std::invalid_argument("at most 16 jobs on one GPU");
  std::vector<double> ends_s(jobs.size());
  replay(slowdowns, priorities, jobs, ends_s);
  return ends_s;
}

void bind_slowdowns(nb::module_& m) {
  nb::enum_<Priorities>(m, "Priorities").value("EQUAL", Priorities::equal).value("ORDERED", Priorities::ordered)
      .value("LISTED", Priorities::listed).value("AUTOMATIC", Priorities::automatic);
  nb::enum_<Device>(m, "Device").value("ONE_QUEUE", Device::one_queue).value("SLICES", Device::slices).value("MPS", Device::mps);
  nb::class_<Slowdowns>(m, "Slowdowns")
      .def(nb::init<std::size_t, Device>(), "kinds"_a = 0, "device"_a = Device::one_queue)
      .def("measured", &Slowdowns::measured, "priorities"_a, "first"_a, "second"_a, "slowdown_first"_a, "slowdown_second"_a)
      .def("rates", &rates_of, "priorities"_a, "jobs"_a);
}

void bind_history(nb::module_& m) {
  nb::class_<History>(m, "History")
      .def("__init__", [](History* self, const std::vector<double>& runs_s) { new (self) History(runs_s); },
           "runs_s"_a = std::vector<double>{})
      .def("add", &History::add, "run_s"_a)
      .def_prop_ro("runs", &History::runs)
      .def_prop_ro("median_s", &History::median_s)
      .def("expected_rest_s", &History::expected_rest_s, "run_s"_a, "limit_s"_a = kNoLimit)
      .def("expected_s", &History::expected_s, "limit_s"_a = kNoLimit)
      .def("next_jump_s", &History::next_jump_s, "run_s"_a);
}

void bind_share(nb::module_& m) {
  nb::class_<Couple>(m, "Couple")
      .def("__init__",
           [](Couple* self, double high_rest_s, double low_rest_s, double high_slowdown, double low_slowdown) {
             new (self) Couple{.high_rest_s = high_rest_s, .low_rest_s = low_rest_s, .high_slowdown = high_slowdown, .low_slowdown = low_slowdown};
           },
           "high_rest_s"_a, "low_rest_s"_a, "high_slowdown"_a, "low_slowdown"_a)
      .def_prop_ro("shared_sum_s", &shared_sum_s)
      .def_prop_ro("shared_last_s", &shared_last_s)
      .def("gains", &gains, "new_is_high"_a, "wait_s"_a);
  m.def("new_should_be_high", &new_should_be_high, "new_high"_a, "running_high"_a);
}

std::pair<Precedence, std::vector<std::size_t>> chosen(const Slowdowns& slowdowns, const std::vector<Contender>& contenders,
                                                       const Precedence& last) {
  if (contenders.size() > kMostResidents) throw std::invalid_argument("at most 16 jobs on one GPU");
  std::vector<std::size_t> order(contenders.size());
  const Precedence found = choose(slowdowns, contenders, last, order);
  return {found, order};
}

void bind_precedence(nb::module_& m) {
  nb::class_<Contender>(m, "Contender")
      .def("__init__",
           [](Contender* self, double rest_s, double busy, double waited_s, bool is_new) {
             if (!(rest_s >= 0) || !(busy >= 0 && busy <= 1)) throw std::invalid_argument("a rest is seconds, a busy share is from 0 to 1");
             new (self) Contender{.rest_s = rest_s, .load = {.busy = busy}, .waited_s = waited_s, .is_new = is_new};
           },
           "rest_s"_a, "busy"_a, "waited_s"_a = 0.0, "is_new"_a = true)
      .def_ro("rest_s", &Contender::rest_s)
      .def_ro("waited_s", &Contender::waited_s);
  nb::class_<Precedence>(m, "Precedence")
      .def(nb::init<>())
      .def_ro("priorities", &Precedence::priorities)
      .def_ro("turn_s", &Precedence::turn_s)
      .def("later", [](const Precedence& self, double passed_s) { return later(self, passed_s); }, "passed_s"_a);
  m.def("choose", &chosen, "slowdowns"_a, "contenders"_a, "last"_a);
  m.attr("PATIENCE_S") = kPatienceS;
  m.attr("TURN_S") = kTurnS;
}

void bind_offer(nb::module_& m) {
  nb::class_<Resident>(m, "Resident")
      .def("__init__",
           [](Resident* self, double rest_s, double busy, int shards, int kind) {
             new (self) Resident{.rest_s = rest_s, .load = {.busy = busy, .kind = kind}, .shards = shards};
           },
           "rest_s"_a, "busy"_a, "shards"_a = 1, "kind"_a = -1)
      .def_ro("rest_s", &Resident::rest_s)
      .def_ro("shards", &Resident::shards)
      .def_prop_ro("busy", [](const Resident& self) { return self.load.busy; })
      .def_prop_ro("kind", [](const Resident& self) { return self.load.kind; });
  nb::class_<Rules>(m, "Rules")
      .def("__init__",
           [](Rules* self, Priorities priorities, std::size_t most, bool must_gain, bool waits_for_free, double saved_worth, double most_busy) {
             new (self) Rules{.priorities = priorities,
                              .most = most,
                              .must_gain = must_gain,
                              .waits_for_free = waits_for_free,
                              .saved_worth = saved_worth,
                              .most_busy = most_busy};
           },
           nb::kw_only(), "priorities"_a = Priorities::automatic, "most"_a = 2, "must_gain"_a = true, "waits_for_free"_a = true,
           "saved_worth"_a = 0.0, "most_busy"_a = 0.0)
      .def_ro("most", &Rules::most)
      .def("with_most", [](Rules self, std::size_t most) {
        self.most = most;
        return self;
      });
  m.def("overdue", &overdue, "submit_s"_a, "now_s"_a, "max_wait_s"_a);
  nb::enum_<Verdict>(m, "Verdict")
      .value("IDLE", Verdict::idle)
      .value("SHARES", Verdict::shares)
      .value("NO_MEMORY", Verdict::no_memory)
      .value("FULL", Verdict::full)
      .value("TOO_BUSY", Verdict::too_busy)
      .value("SLOWER", Verdict::slower);
  nb::class_<Offer>(m, "Offer")
      .def_ro("verdict", &Offer::verdict)
      .def_ro("end_s", &Offer::end_s)
      .def_ro("gain_s", &Offer::gain_s)
      .def_ro("slowdown_new", &Offer::slowdown_new)
      .def_ro("slowdown_worst", &Offer::slowdown_worst)
      .def_prop_ro("accepted", &Offer::accepted);
  m.def("replay", &ends_of, "slowdowns"_a, "priorities"_a, "jobs"_a);
  m.def(
      "consider",
      [](const Slowdowns& slowdowns, const Rules& rules, const Resident& job, const std::vector<Resident>& residents, int free_shards,
         double wait_s) { return consider(slowdowns, rules, job, residents, free_shards, wait_s); },
      "slowdowns"_a, "rules"_a, "job"_a, "residents"_a, "free_shards"_a, "wait_s"_a = kNoLimit);
  m.def("shards_for", &shards_for, "peak_bytes"_a);
  m.def(
      "sub_batch",
      [](int batch_1, double peak_1, int batch_2, double peak_2, double free_bytes, int wanted) {
        const SubBatch found = sub_batch(batch_1, peak_1, batch_2, peak_2, free_bytes, wanted);
        return std::pair(found.batch, found.steps);
      },
      "batch_1"_a, "peak_bytes_1"_a, "batch_2"_a, "peak_bytes_2"_a, "free_bytes"_a, "wanted_batch"_a);
}

} // namespace
} // namespace fikit::placement

NB_MODULE(_placement, m) {
  nb::set_leak_warnings(false); // rules that a module of Python keeps to its end are no leak
  fikit::placement::bind_slowdowns(m);
  fikit::placement::bind_history(m);
  fikit::placement::bind_share(m);
  fikit::placement::bind_offer(m);
  fikit::placement::bind_precedence(m);
}
