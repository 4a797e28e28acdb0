#include "pass.hpp"

#include <algorithm>
#include <cmath>

namespace replay {
namespace {

int64_t times(int64_t ns, double factor) { return std::llround(static_cast<double>(ns) * factor); }

}  // namespace

Plan make_pass(const Recording& recording) {
  Plan plan = make_plan(recording);
  const auto is_work = [](const Step& step) { return step.event->kind != EventKind::synchronize; };
  auto& steps = plan.steps;
  steps.erase(std::find_if(steps.rbegin(), steps.rend(), is_work).base(), steps.end());
  steps.erase(steps.begin(), std::find_if(steps.begin(), steps.end(), is_work));
  Step& first = steps.front();
  first.think_ns = 0;
  first.cost_ns = std::max<int64_t>(0, first.cost_ns - first.delay_ns);
  first.delay_ns = 0;
  for (Step& step : steps) step.last = false;  // its stream goes on in the next pass
  return plan;
}

void stretch(Recording& recording, double factor) {
  for (Event& event : recording.events)
    for (int64_t* ns : {&event.host_ns, &event.call_ns, &event.start_ns, &event.duration_ns}) *ns = times(*ns, factor);
}

void stretch(Plan& plan, double factor) {
  for (Step& step : plan.steps)
    for (int64_t* ns : {&step.think_ns, &step.cost_ns, &step.delay_ns, &step.tail_ns, &step.joins_after_ns})
      *ns = times(*ns, factor);
  plan.launch_latency_ns = times(plan.launch_latency_ns, factor);
  plan.kernel_gap_ns = times(plan.kernel_gap_ns, factor);
}

}  // namespace replay
