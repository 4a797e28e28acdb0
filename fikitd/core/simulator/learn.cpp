#include "learn.hpp"

#include <algorithm>

#include "simulation.hpp"

namespace fikit::simulator {

predictor::Model learn(const Trace& trace, std::size_t passes) {
  JobOptions job;
  job.trace = &trace;
  job.managed = false;
  Simulation alone({}, {job});
  alone.job(0).keep_runs();
  alone.run(passes, kNever);
  std::vector<Ran> runs = alone.job(0).runs();
  std::stable_sort(runs.begin(), runs.end(), [](const Ran& a, const Ran& b) { return a.start_ns < b.start_ns; });
  predictor::Model model;
  predictor::Context context;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const predictor::Identity identity = model.describe(trace.kernel(runs[i].step));
    model.add_duration(identity, context, runs[i].end_ns - runs[i].start_ns);
    if (i + 1 < runs.size())
      model.add_gap(identity, context, std::max<std::int64_t>(0, runs[i + 1].start_ns - runs[i].end_ns));
    context.push(identity);
  }
  return model;
}

} // namespace fikit::simulator
