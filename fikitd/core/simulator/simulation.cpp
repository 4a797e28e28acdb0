#include "simulation.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>

namespace fikit::simulator {
namespace {

emu::DeviceParameters parameters_of(const Device& device, const Trace& trace) {
  emu::DeviceParameters parameters;
  const auto or_recorded = [](std::int64_t ns, std::int64_t recorded_ns) { return ns < 0 ? recorded_ns : ns; };
  parameters.launch_latency_ns = or_recorded(device.launch_latency_ns, trace.plan().launch_latency_ns);
  parameters.kernel_gap_ns = or_recorded(device.kernel_gap_ns, trace.plan().kernel_gap_ns);
  parameters.sharing = device.sharing;
  if (device.sharing == emu::Sharing::slices) {
    parameters.slice_ns = device.slice_ns;
    parameters.switch_ns = device.switch_ns;
    parameters.idle_holds = device.idle_holds ? 1 : 0;
  }
  if (device.sharing == emu::Sharing::mps) {
    parameters.mps_model = device.mps_model;
    parameters.mps_switch_ns = device.mps_switch_ns;
    parameters.overlap_slowdown = device.overlap_slowdown;
  }
  return parameters;
}

emu::DeviceState* fresh_state() {
  auto* state = static_cast<emu::DeviceState*>(std::calloc(1, sizeof(emu::DeviceState)));
  if (state == nullptr) throw std::bad_alloc();
  return state;
}

} // namespace

Simulation::Simulation(const Setup& setup, const std::vector<JobOptions>& jobs)
    : state_(fresh_state()),
      device_(*state_),
      adapter_(setup.policy,
            {.options = setup.options, .make = setup.make, .marker_interval = setup.marker_interval, .knowledge = setup.knowledge,
             .overlaps = setup.device.sharing == emu::Sharing::mps, .measures = setup.measures},
            setup.costs, setup.seen) {
  if (jobs.empty()) throw std::invalid_argument("a simulation needs a job");
  emu::DeviceModel::initialise(*state_, parameters_of(setup.device, *jobs.front().trace));
  device_.advance(1); // 0 would read as "no first op yet" in the accounts
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto number = static_cast<std::uint32_t>(i);
    jobs_.push_back(std::make_unique<Job>(number, jobs[i], setup.costs, setup.seen, device_, *this));
    if (jobs[i].managed) adapter_.add(*jobs_.back(), number, -setup.lead_ns);
  }
  if (setup.splits) followed_.resize(jobs.size());
  followed_until_ns_ = now_ns();
}

std::int64_t Simulation::next_ns() {
  std::int64_t next_ns = std::min(device_.next_event_ns(), adapter_.next_ns());
  for (const auto& job : jobs_) next_ns = std::min(next_ns, job->next_ns());
  return next_ns;
}

void Simulation::decide(std::int64_t now_ns) {
  for (const policy::Decision& decision : adapter_.decide(now_ns).items())
    if (decision.kind == policy::DecisionKind::open || decision.kind == policy::DecisionKind::grant)
      jobs_[decision.client]->look(now_ns);
}

std::size_t Simulation::state_of(std::size_t number) const {
  const Job& job = *jobs_[number];
  if (job.in_flight()) return Split::kQueued;
  return job.at_gate() ? Split::at_gate(adapter_.held(static_cast<std::uint32_t>(number))) : Split::kHost;
}

// Until now_ns, which the device has come to, and nobody has looked at yet, every job was as it is.
void Simulation::follow(std::int64_t now_ns) {
  const auto used_ns = [this](std::size_t number) {
    const std::int64_t before_ns = followed_[number].device_ns;
    followed_[number].device_ns = jobs_[number]->device_ns();
    return followed_[number].device_ns - before_ns;
  };
  const bool first_runs = used_ns(0) > 0; // all the time: what changes on the device is looked at when it does
  for (std::size_t i = 1; i < jobs_.size(); ++i) {
    Split& split = followed_[i].split;
    const std::int64_t own_ns = used_ns(i);
    split.spent(own_ns, Split::kRuns, first_runs);
    split.spent(now_ns - followed_until_ns_ - own_ns, state_of(i), first_runs);
  }
  followed_until_ns_ = now_ns;
}

void Simulation::run(std::size_t requests, std::int64_t until_ns) {
  while (jobs_.front()->requests().size() < requests && now_ns() < until_ns) {
    const std::int64_t now = next_ns();
    if (now == kNever) throw std::runtime_error("couldn't simulate to the end: every job waits for ever");
    device_.advance(now);
    if (!followed_.empty()) follow(now);
    for (const auto& job : jobs_) job->collect(now);
    if (adapter_.next_ns() <= now) decide(now);
    for (const auto& job : jobs_)
      while (job->next_ns() <= now) job->act(now);
  }
}

} // namespace fikit::simulator
