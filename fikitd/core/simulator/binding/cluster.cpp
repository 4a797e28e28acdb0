// fikitd._cluster: a cluster of GPUs in simulated time, as Python sees it. Typed in fikitd/fikitd/_cluster.pyi. The rules of
// sharing that it is given are fikitd._placement's.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

#include "cluster/setup.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace fikit::simulator::cluster {
namespace {

// A trace, taken over once for all that is tried on it.
struct Jobs {
  std::vector<ClusterJob> all;
};

using Array = nb::ndarray<nb::numpy, double, nb::c_contig>;

Array array_of(std::vector<double> values, std::vector<std::size_t> shape) {
  auto* kept = new std::vector<double>(std::move(values));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<double>*>(p); });
  return {kept->data(), shape.size(), shape.data(), owner};
}

nb::dict result_of(ClusterResult result) {
  std::vector<double> use;
  use.reserve(3 * result.use.size());
  for (const Use& at : result.use) use.insert(use.end(), {at.t_s, at.taken, at.work});
  const std::size_t jobs = result.end_s.size();
  const std::size_t moments = result.use.size();
  nb::dict found;
  found["start_s"] = array_of(std::move(result.start_s), {jobs});
  found["end_s"] = array_of(std::move(result.end_s), {jobs});
  found["use"] = array_of(std::move(use), {moments, 3});
  found["events"] = result.events;
  found["offers"] = result.offers;
  return found;
}

std::vector<ClusterJob> jobs_of(const std::vector<double>& submit_s, const std::vector<double>& work_s, const std::vector<double>& expected_s,
                                const std::vector<int>& gpus, const std::vector<int>& shards, const std::vector<double>& busy,
                                const std::vector<int>& kind) {
  std::vector<ClusterJob> jobs(submit_s.size());
  for (const std::size_t size : {work_s.size(), expected_s.size(), gpus.size(), shards.size(), busy.size(), kind.size()}) {
    if (size != jobs.size()) throw std::invalid_argument("the columns of a trace are of different length");
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i] = {.submit_s = submit_s[i], .work_s = work_s[i], .expected_s = expected_s[i], .gpus = gpus[i],
               .shards = shards[i], .busy = busy[i], .kind = kind[i]};
  }
  return jobs;
}

} // namespace
} // namespace fikit::simulator::cluster

NB_MODULE(_cluster, m) {
  nb::set_leak_warnings(false); // rules that a module of Python keeps to its end are no leak
  using namespace fikit::simulator::cluster;
  nb::module_::import_("fikitd._placement"); // its classes are arguments here
  nb::enum_<Queue>(m, "Queue").value("ARRIVAL", Queue::arrival).value("SHORTEST", Queue::shortest);
  nb::enum_<Behind>(m, "Behind").value("WAITS", Behind::waits).value("FITS", Behind::fits).value("RESERVES", Behind::reserves);
  nb::enum_<Sharing>(m, "Sharing")
      .value("NONE", Sharing::none)
      .value("FIRST_FIT", Sharing::first_fit)
      .value("IDLE_FIRST", Sharing::idle_first)
      .value("SPREAD", Sharing::spread)
      .value("BEST", Sharing::best)
      .value("AGENT", Sharing::agent);
  nb::enum_<Preemption>(m, "Preemption")
      .value("REMAINING", Preemption::remaining)
      .value("REMAINING_GPU", Preemption::remaining_gpu)
      .value("ATTAINED", Preemption::attained);
  nb::class_<Jobs>(m, "Jobs")
      .def("__init__",
           [](Jobs* self, const std::vector<double>& submit_s, const std::vector<double>& work_s,
              const std::vector<double>& expected_s, const std::vector<int>& gpus, const std::vector<int>& shards,
              const std::vector<double>& busy, const std::vector<int>& kind) {
             new (self) Jobs{jobs_of(submit_s, work_s, expected_s, gpus, shards, busy, kind)};
           },
           nb::kw_only(), "submit_s"_a, "work_s"_a, "expected_s"_a, "gpus"_a, "shards"_a, "busy"_a, "kind"_a)
      .def("__len__", [](const Jobs& self) { return self.all.size(); });
  m.def(
      "simulate_cluster",
      [](const Jobs& jobs, int gpus, int shards_per_gpu, const std::vector<double>& history, Queue queue, Behind behind,
         Sharing sharing, const fikit::placement::Rules& rules, double max_wait_s, const fikit::placement::Slowdowns& real,
         const fikit::placement::Slowdowns& believed) {
        const ClusterSetup setup{.gpus = gpus,
                                 .shards_per_gpu = shards_per_gpu,
                                 .history = history,
                                 .policy = {.queue = queue, .max_wait_s = max_wait_s, .behind = behind, .sharing = sharing, .rules = rules},
                                 .real = &real,
                                 .believed = &believed};
        ClusterResult result;
        {
          const nb::gil_scoped_release release;
          result = simulate_cluster(setup, jobs.all);
        }
        return result_of(std::move(result));
      },
      "jobs"_a, nb::kw_only(), "gpus"_a, "shards_per_gpu"_a, "history"_a, "queue"_a, "behind"_a, "sharing"_a, "rules"_a,
      "max_wait_s"_a = fikit::placement::kNoLimit, "real"_a, "believed"_a);
  m.def(
      "simulate_preemptive",
      [](const Jobs& jobs, Preemption rule, int nodes, int gpus_per_node, bool consolidated,
         const std::vector<double>& queue_limits_s, const std::vector<double>& toll_s, bool every_event) {
        const PreemptiveSetup setup{.rule = rule,
                                    .nodes = nodes,
                                    .gpus_per_node = gpus_per_node,
                                    .consolidated = consolidated,
                                    .queue_limits_s = queue_limits_s,
                                    .every_event = every_event};
        ClusterResult result;
        {
          const nb::gil_scoped_release release;
          result = simulate_preemptive(setup, jobs.all, toll_s);
        }
        return result_of(std::move(result));
      },
      "jobs"_a, nb::kw_only(), "rule"_a, "nodes"_a, "gpus_per_node"_a, "consolidated"_a = false,
      "queue_limits_s"_a = std::vector<double>{}, "toll_s"_a = std::vector<double>{}, "every_event"_a = false);
}
