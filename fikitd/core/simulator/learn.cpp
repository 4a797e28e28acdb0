#include "learn.hpp"

#include <algorithm>

#include "simulation.hpp"

namespace fikit::simulator {
namespace {

predictor::Model measured(const Trace& trace, std::size_t passes, std::int64_t until_ns, std::int64_t around_ns, bool fills,
                          std::int64_t timing_ns) {
  JobOptions job;
  job.trace = &trace;
  job.managed = timing_ns > 0;
  job.fills = fills;
  Setup setup;
  setup.costs = {timing_ns, 0, 0, 0, 0};
  setup.measures = true;
  Simulation alone(setup, {job});
  alone.job(0).keep_runs();
  alone.run(passes, until_ns);
  std::vector<Ran> runs = alone.job(0).runs();
  std::stable_sort(runs.begin(), runs.end(), [](const Ran& a, const Ran& b) { return a.start_ns < b.start_ns; });
  predictor::Model model;
  predictor::Context context;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const predictor::Identity identity = model.describe(trace.kernel(runs[i].step));
    const std::int64_t end_ns = runs[i].end_ns + around_ns;
    model.add_duration(identity, context, end_ns - runs[i].start_ns);
    if (i + 1 < runs.size()) model.add_gap(identity, context, std::max<std::int64_t>(0, runs[i + 1].start_ns - end_ns));
    context.push(identity);
  }
  return model;
}

} // namespace

Profile learn(const Trace& trace, std::size_t passes, std::int64_t until_ns, bool stored, bool fills, const policy::Tuning& tuning,
              std::int64_t timing_ns) {
  // The events by which the shim times a kernel hold what the device needs between two works of a stream.
  const std::int64_t around_ns = stored ? trace.plan().kernel_gap_ns : 0;
  Profile profile{.model = measured(trace, passes, until_ns, around_ns, fills, timing_ns), .rhythm = {}, .runs = forecaster::Forecaster::runs(tuning), .truth = {}};
  // When its host waits is learnt by the adapter, as in any run: here in one alone.
  JobOptions job;
  job.trace = &trace;
  job.profile = &profile;
  job.fills = fills;
  Setup setup;
  setup.options.tuning = tuning;
  setup.costs = {timing_ns, 0, 0, 0, 0};
  setup.measures = true;
  Simulation alone(setup, {job});
  alone.job(0).keep_deeds();
  if (stored) alone.adapter().forget_kernels(); // what a segment with a new kernel teaches is nothing
  alone.run(passes, until_ns);
  if (timing_ns > 0) {
    const forecaster::Learnt learnt = alone.adapter().learnt(0);
    profile.rhythm.expect(learnt.rhythm);
    profile.runs.expect(learnt.runs);
  } else if (stored) {
    profile.rhythm.expect(alone.adapter().rhythm(0).learnt());
    profile.runs.expect(alone.adapter().runs(0).learnt());
  } else {
    profile.rhythm = alone.adapter().rhythm(0);
    profile.runs = alone.adapter().runs(0);
    profile.runs.forget_long_runs();
  }
  profile.truth = truth_of(trace, alone.job(0).deeds());
  return profile;
}

} // namespace fikit::simulator
