#include "trace.hpp"

#include <algorithm>
#include <bit>
#include <sstream>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "fikit_protocol.h"
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

bool is_fill(const replay::Event& event) {
  return event.kind == replay::EventKind::set || event.kind == replay::EventKind::copy_on_device;
}

emu::Occupancy occupancy_of(const replay::Event& event) {
  using replay::EventKind;
  if (is_fill(event))
    return emu::occupancy(emu::footprint_of_bytes(event.bytes));
  if (event.kind != EventKind::kernel) return {};
  return emu::occupancy({.blocks = std::uint64_t{event.grid[0]} * event.grid[1] * event.grid[2],
                         .block_threads = static_cast<int>(event.block[0] * event.block[1] * event.block[2]),
                         .registers = event.registers,
                         .shared_bytes = event.shared_bytes});
}

} // namespace

Trace::Trace(std::string text, double stretch, std::int64_t launch_latency_ns, std::int64_t kernel_gap_ns)
    : text_(std::move(text)), stretch_(stretch), recording_(read(text_)), plan_(replay::make_pass(recording_)), thoughtless_(simulator::thoughtless(plan_)) {
  if (!(stretch > 0)) throw std::runtime_error("couldn't stretch a recording by " + std::to_string(stretch));
  replay::stretch(recording_, stretch);
  replay::stretch(plan_, stretch);
  replay::stretch(thoughtless_, stretch);
  for (replay::Plan* plan : {&plan_, &thoughtless_}) {
    if (launch_latency_ns >= 0) plan->launch_latency_ns = launch_latency_ns;
    if (kernel_gap_ns >= 0) plan->kernel_gap_ns = kernel_gap_ns;
  }
  std::unordered_map<predictor::Identity, std::uint32_t> slot_of;
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    const replay::Event& event = *plan_.steps[i].event;
    const bool is_kernel = event.kind == replay::EventKind::kernel;
    const bool passes_gate = launches(i, true);
    identities_.push_back(passes_gate ? predictor::identify(kernel(i)) : 0);
    slots_.push_back(0);
    if (passes_gate) {
      const auto slot = static_cast<std::uint32_t>(described_.size()) + 1;
      const auto [known, is_new] = slot_of.try_emplace(identities_[i], slot < FIKIT_SLOTS ? slot : 0);
      if (is_new && known->second != 0) described_.push_back(i);
      slots_[i] = known->second;
    }
    occupancies_.push_back(occupancy_of(event));
    kernels_ += is_kernel ? 1 : 0;
    if (is_kernel) last_launch_[false] = i;
    if (passes_gate) last_launch_[true] = i;
    const auto at = std::find(streams_.begin(), streams_.end(), event.stream);
    stream_of_.push_back(static_cast<std::size_t>(at - streams_.begin()));
    if (at == streams_.end()) streams_.push_back(event.stream);
  }
}

std::unique_ptr<Trace> Trace::on(std::int64_t launch_latency_ns, std::int64_t kernel_gap_ns) const {
  return std::make_unique<Trace>(text_, stretch_, launch_latency_ns, kernel_gap_ns);
}

bool Trace::launches(std::size_t step, bool fills) const {
  const replay::Event& event = *plan_.steps[step].event;
  return event.kind == replay::EventKind::kernel || (fills && is_fill(event));
}

predictor::Kernel Trace::kernel(std::size_t step) const {
  const replay::Event& event = *plan_.steps[step].event;
  if (is_fill(event)) {
    const bool set = event.kind == replay::EventKind::set;
    const auto size_class = static_cast<std::uint32_t>(event.bytes > 1 ? std::bit_width(event.bytes - 1) : 0);
    return {.name = set ? "memset" : "copy within the device", .grid = {size_class, 1, 1}, .block = {1, 1, 1}}; // shim/hooks/fill.c
  }
  predictor::Kernel kernel{.name = recording_.names[static_cast<std::size_t>(event.name)],
                           .shared_bytes = event.shared_bytes};
  std::copy_n(event.grid, 3, kernel.grid.begin());
  std::copy_n(event.block, 3, kernel.block.begin());
  return kernel;
}

} // namespace fikit::simulator
