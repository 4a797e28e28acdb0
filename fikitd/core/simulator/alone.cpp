#include "alone.hpp"

#include <algorithm>

#include "simulation.hpp"

namespace fikit::simulator {
namespace {

// By wait that comes after a kernel. runs: in the order of their ends; waits: when those ended that left nothing behind.
std::vector<Interval> intervals(const std::vector<Ran>& runs, const std::vector<std::int64_t>& waits) {
  std::vector<Interval> intervals;
  auto run = runs.begin();
  for (const std::int64_t wait_ns : waits) {
    Interval interval;
    for (; run != runs.end() && run->end_ns <= wait_ns; ++run) {
      interval.work_ns += run->end_ns - run->start_ns;
      interval.end_ns = run->end_ns;
    }
    if (interval.work_ns == 0) continue; // it waited for something else
    interval.tail_ns = wait_ns - interval.end_ns;
    intervals.push_back(interval);
  }
  return intervals;
}

} // namespace

Alone alone(const Trace& trace, std::size_t requests, const std::vector<std::int64_t>& arrivals) {
  Setup setup;
  setup.costs = Costs{0, 0, 0, 0, 0};
  setup.device.launch_latency_ns = trace.plan().launch_latency_ns;
  setup.device.kernel_gap_ns = trace.plan().kernel_gap_ns;
  JobOptions options;
  options.trace = &trace;
  options.arrivals = arrivals;
  Simulation simulation(setup, {options});
  Job& job = simulation.job(0);
  job.keep_deeds();
  job.keep_runs();
  simulation.run(requests, kNever);
  std::vector<Ran> runs = job.runs();
  std::stable_sort(runs.begin(), runs.end(), [](const Ran& a, const Ran& b) { return a.end_ns < b.end_ns; });
  std::vector<std::int64_t> waits;
  for (const Deed& deed : job.deeds())
    if (deed.wait) waits.push_back(deed.t_ns);
  Alone alone{.intervals = intervals(runs, waits), .span_ns = job.requests().back().end_ns, .response_ns = 0};
  for (const Request& request : job.requests()) alone.response_ns += request.end_ns - request.arrival_ns;
  return alone;
}

} // namespace fikit::simulator
