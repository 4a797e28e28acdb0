#include "trace.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "replay/pass.hpp"

namespace fikit::simulator {
namespace {

replay::Recording read(const std::string& text) {
  std::istringstream in(text);
  return replay::read_recording(in);
}

// The same calls from a host that computes nothing in between and waits for nothing.
replay::Plan thoughtless(replay::Plan plan) {
  constexpr std::int64_t kLongestCall = 30'000; // longer ones were not the call's own cost
  for (replay::Step& step : plan.steps) {
    step.think_ns = 0;
    step.cost_ns = std::clamp<std::int64_t>(step.cost_ns - step.delay_ns, 0, kLongestCall);
    step.delay_ns = 0;
    step.tail_ns = 0;
    step.waits = false;
  }
  return plan;
}

} // namespace

Trace::Trace(const std::string& text, double stretch)
    : recording_(read(text)), plan_(replay::make_pass(recording_)), thoughtless_(simulator::thoughtless(plan_)) {
  if (!(stretch > 0)) throw std::runtime_error("couldn't stretch a recording by " + std::to_string(stretch));
  replay::stretch(recording_, stretch);
  replay::stretch(plan_, stretch);
  replay::stretch(thoughtless_, stretch);
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    const replay::Event& event = *plan_.steps[i].event;
    const bool is_kernel = event.kind == replay::EventKind::kernel;
    identities_.push_back(is_kernel ? predictor::identify(kernel(i)) : 0);
    kernels_ += is_kernel ? 1 : 0;
    if (is_kernel) last_kernel_ = i;
    const auto at = std::find(streams_.begin(), streams_.end(), event.stream);
    stream_of_.push_back(static_cast<std::size_t>(at - streams_.begin()));
    if (at == streams_.end()) streams_.push_back(event.stream);
  }
}

predictor::Kernel Trace::kernel(std::size_t step) const {
  const replay::Event& event = *plan_.steps[step].event;
  predictor::Kernel kernel{.name = recording_.names[static_cast<std::size_t>(event.name)],
                           .shared_bytes = event.shared_bytes};
  std::copy_n(event.grid, 3, kernel.grid.begin());
  std::copy_n(event.block, 3, kernel.block.begin());
  return kernel;
}

} // namespace fikit::simulator
