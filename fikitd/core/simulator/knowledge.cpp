#include "knowledge.hpp"

#include <algorithm>
#include <cstdlib>

#include "forecaster/forecaster.hpp"

namespace fikit::simulator {

void Knowing::predicts(predictor::Prediction& predicted) {
  if (forgets_ && met_.insert(job_.trace().identity(step_)).second) predicted = {};
  if (job_.profile() == nullptr) return;
  if (knowledge_ == Knowledge::kernel) predicted = job_.profile()->model.predict(job_.trace().identity(step_), {});
  if (knowledge_ != Knowledge::truth) return;
  predicted.duration_ns = predicted.duration_high_ns = job_.duration_ns(step_);
  predicted.duration_tail_ns = predicted.duration_longest_ns = predicted.duration_ns;
}

void Knowing::tells(policy::Event& event) {
  const bool knows = knowledge_ == Knowledge::truth && job_.profile() != nullptr;
  if (event.kind == policy::EventKind::launched) {
    launched_ = step_;
    if (event.duration_ns >= 0) misprediction_.add(std::abs(event.duration_ns - job_.duration_ns(step_)));
    if (knows) foretell_launch(event);
  } else if (event.kind == policy::EventKind::drained && event.waited && knows) {
    foretell_wait(event);
  }
  if (knows) forecaster::foretell(alone_, event);
}

void Knowing::foretell_launch(policy::Event& event) const {
  event.outlook.in_line_ns = job_.trace().plan().kernel_gap_ns;
  event.outlook.slack.ns.fill(job_.profile()->truth.launches[launched_].slack_ns);
}

void Knowing::foretell_wait(policy::Event& event) const {
  const Truth::Launch& last = job_.profile()->truth.launches[launched_];
  std::int64_t idle_ns = last.idle_ns;
  if (launched_ == job_.trace().last_launch(job_.fills_launch())) // of the pass: the next one begins when its request arrives
    idle_ns += std::max<std::int64_t>(0, std::min(job_.arrival_ns(), event.time_ns + policy::kHorizonNs) - event.time_ns);
  event.outlook.slack.ns.fill(last.next_slack_ns);
  event.outlook.idle.ns.fill(idle_ns);
  event.outlook.span_ns = last.span_ns;
  event.outlook.tail_ns = last.tail_ns;
  event.outlook.after_ns = last.after_ns;
}

} // namespace fikit::simulator
