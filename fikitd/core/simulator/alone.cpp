#include "alone.hpp"

#include <algorithm>
#include <utility>

#include "simulation.hpp"

namespace fikit::simulator {
namespace {

constexpr Costs kNone{0, 0, 0, 0, 0};
constexpr Costs kLaunches{Costs{}.launch_ns, 0, 0, 0, 0};

struct Life {
  std::vector<Ran> runs; // in the order of their ends
  std::vector<std::int64_t> waits; // when those ended that left nothing behind
  std::vector<Request> requests;
};

// On the device that `device` was recorded on.
Life live(const Trace& trace, const Trace& device, const Costs& costs, std::size_t requests,
          const std::vector<std::int64_t>& arrivals = {}) {
  Setup setup;
  setup.costs = costs;
  setup.launch_latency_ns = device.plan().launch_latency_ns;
  setup.kernel_gap_ns = device.plan().kernel_gap_ns;
  JobOptions job;
  job.trace = &trace;
  job.arrivals = arrivals;
  Simulation alone(setup, {job});
  alone.desk().keep_notes();
  alone.job(0).keep_runs();
  alone.run(requests, kNever);
  Life life{.runs = alone.job(0).runs(), .waits = {}, .requests = alone.job(0).requests()};
  std::stable_sort(life.runs.begin(), life.runs.end(), [](const Ran& a, const Ran& b) { return a.end_ns < b.end_ns; });
  for (const Note& note : alone.desk().notes())
    if (note.kind == Note::Kind::drained) life.waits.push_back(note.t_ns);
  life.waits.push_back(alone.now_ns()); // nobody has read that note
  return life;
}

// By request: how many respond later, at least, if it does: itself, and those that wait for it although it is in time.
std::vector<double> weights(const std::vector<Request>& requests) {
  std::vector<double> weights(requests.size(), 1.0);
  for (std::size_t i = requests.size(); i-- > 1;)
    if (requests[i].arrival_ns <= requests[i - 1].end_ns) weights[i - 1] = weights[i] + 1;
  return weights;
}

// By wait that comes after a kernel, and in one.
std::vector<Interval> intervals(const Life& life) {
  std::vector<Interval> intervals;
  auto run = life.runs.begin();
  for (const std::int64_t wait_ns : life.waits) {
    Interval interval;
    for (; run != life.runs.end() && run->end_ns <= wait_ns; ++run) {
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

AloneHigh alone_high(const Trace& trace, std::size_t requests, const std::vector<std::int64_t>& arrivals) {
  const Life life = live(trace, trace, kNone, requests, arrivals);
  AloneHigh alone{.intervals = intervals(life), .span_ns = life.requests.back().end_ns, .response_ns = 0};
  for (const Request& request : life.requests) alone.response_ns += request.end_ns - request.arrival_ns;
  const std::vector<Interval> paying = intervals(live(trace, trace, kLaunches, requests, arrivals));
  const std::vector<double> weight = weights(life.requests);
  std::size_t request = 0;
  for (std::size_t i = 0; i < alone.intervals.size(); ++i) {
    Interval& interval = alone.intervals[i];
    while (life.requests[request].end_ns < interval.end_ns) ++request;
    if (!arrivals.empty()) interval.weight = weight[request];
    interval.paying_end_ns = paying.at(i).end_ns;
  }
  return alone;
}

std::vector<LowKernel> alone_low(const Trace& trace, const Trace& high) {
  const Life life = live(trace, high, kNone, 2);
  const std::int64_t first_end_ns = life.requests.front().end_ns;
  const auto& steps = trace.plan().steps;
  std::vector<std::int64_t> pause_ns(steps.size(), 0);
  auto wait = std::lower_bound(life.waits.begin(), life.waits.end(), first_end_ns);
  for (auto run = life.runs.begin(); run != life.runs.end() && wait != life.waits.end();) {
    if (run->end_ns <= *wait) {
      ++run;
      continue;
    }
    // All until the next wait: the first one to start, and the first one that was launched.
    const std::int64_t wait_ns = *wait;
    while (wait != life.waits.end() && *wait < run->end_ns) ++wait;
    const std::int64_t next_ns = wait == life.waits.end() ? kNever : *wait;
    std::int64_t start_ns = run->start_ns;
    std::size_t first = run->step;
    for (auto other = run; other != life.runs.end() && other->end_ns <= next_ns; ++other) {
      start_ns = std::min(start_ns, other->start_ns);
      first = std::min(first, other->step);
    }
    // The high job may be late in that time, by as much as the low one's copies keep its own from going on.
    std::int64_t copies_ns = 0;
    for (std::size_t step = first; step-- > 0 && steps[step].event->kind != replay::EventKind::kernel;)
      copies_ns += steps[step].event->duration_ns;
    pause_ns[first] = std::max<std::int64_t>(0, start_ns - wait_ns - copies_ns);
  }
  std::vector<LowKernel> kernels;
  for (std::size_t step = 0; step < steps.size(); ++step)
    if (steps[step].event->kind == replay::EventKind::kernel)
      kernels.push_back({.length_ns = steps[step].event->duration_ns, .pause_ns = pause_ns[step]});
  return kernels;
}

} // namespace fikit::simulator
