#include "host.hpp"
#include "target.hpp"

namespace replay {

int64_t play(const Plan& plan, Target& target) {
  Host host(plan);
  host.begin(target.now_ns());
  while (!host.finished()) {
    const Step& step = host.step();
    const bool work = step.event->kind != EventKind::synchronize;
    if (step.joins >= 0) host.not_before(target.wait_for_mark(step.joins) + step.joins_after_ns);
    target.sleep_until(host.due_ns());
    host.calls(target.now_ns());
    if (work) target.issue(step);
    if (step.mark >= 0) {
      target.mark(step);
    } else if (step.waits) {
      if (work) {
        target.wait_for_stream(step.event->stream);
      } else if (step.behind >= 0) {
        target.wait_for_number(step.behind);
      } else {
        target.wait_for_all();
      }
    }
    host.returns(target.now_ns());
  }
  target.wait_for_all();
  return target.span_ns();
}

}  // namespace replay
