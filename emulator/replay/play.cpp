#include <algorithm>

#include "target.hpp"

namespace replay {

int64_t play(const Plan& plan, Target& target) {
  // The moment at which the host should be where it is. It runs on even when a sleep ends late, so that the next
  // steps catch up; only what the device does to the host moves it.
  int64_t due = target.now_ns();
  bool begun = false;
  for (const Step& step : plan.steps) {
    due += step.think_ns;
    target.sleep_until(due + step.delay_ns);
    const int64_t begin = target.now_ns();
    const bool work = step.event->kind != EventKind::synchronize;
    if (work && !begun) due = begin - step.delay_ns;  // the span begins here: catching up would shorten it
    begun = begun || work;
    if (work) target.issue(step);
    if (step.waits) {
      if (work) {
        target.wait_for_stream(step.event->stream);
      } else {
        target.wait_for_all();
      }
      due = std::max(due + step.cost_ns, target.now_ns()) + step.tail_ns;
    } else {
      due += std::max(step.cost_ns, step.delay_ns + target.now_ns() - begin);
    }
  }
  target.wait_for_all();
  return target.span_ns();
}

}  // namespace replay
