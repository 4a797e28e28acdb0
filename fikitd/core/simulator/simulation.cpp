#include "simulation.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>

namespace fikit::simulator {
namespace {

emu::DeviceParameters device_of(const Setup& setup, const Trace& trace) {
  emu::DeviceParameters parameters;
  const auto or_recorded = [](std::int64_t ns, std::int64_t recorded_ns) { return ns < 0 ? recorded_ns : ns; };
  parameters.launch_latency_ns = or_recorded(setup.launch_latency_ns, trace.plan().launch_latency_ns);
  parameters.kernel_gap_ns = or_recorded(setup.kernel_gap_ns, trace.plan().kernel_gap_ns);
  parameters.slice_ns = setup.slice_ns;
  parameters.switch_ns = setup.switch_ns;
  parameters.merged = setup.slice_ns == 0 ? 1 : 0;
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
      desk_(setup.policy, setup.options, setup.costs, setup.seen, setup.knowledge) {
  if (jobs.empty()) throw std::invalid_argument("a simulation needs a job");
  emu::DeviceModel::initialise(*state_, device_of(setup, *jobs.front().trace));
  device_.advance(1); // 0 would read as "no first op yet" in the accounts
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto number = static_cast<std::uint32_t>(i);
    jobs_.push_back(std::make_unique<Job>(number, jobs[i], setup.costs, setup.seen, device_, *this));
    if (jobs[i].managed) desk_.add(*jobs_.back(), number, -setup.lead_ns);
  }
  if (setup.splits) followed_.resize(jobs.size());
  followed_until_ns_ = now_ns();
}

std::int64_t Simulation::next_ns() {
  std::int64_t next_ns = std::min(device_.next_event_ns(), desk_.next_ns());
  for (const auto& job : jobs_) next_ns = std::min(next_ns, job->next_ns());
  return next_ns;
}

void Simulation::decide(std::int64_t now_ns) {
  for (const policy::Decision& decision : desk_.decide(now_ns).items()) {
    switch (decision.kind) {
      case policy::DecisionKind::open: jobs_[decision.client]->set_gate(false, now_ns); break;
      case policy::DecisionKind::close: jobs_[decision.client]->set_gate(true, now_ns); break;
      case policy::DecisionKind::ask_copies: jobs_[decision.client]->ask_copies(decision.engines); break;
      case policy::DecisionKind::grant: jobs_[decision.client]->grant(decision.request, decision.launches, now_ns); break;
      case policy::DecisionKind::extend_run: jobs_[decision.client]->extend_run(decision.launches); break;
      case policy::DecisionKind::end_run: jobs_[decision.client]->end_run(); break;
      case policy::DecisionKind::wake_at: break;
    }
  }
}

std::size_t Simulation::state_of(std::size_t number) const {
  const Job& job = *jobs_[number];
  if (job.in_flight()) return Split::kQueued;
  return job.at_gate() ? Split::at_gate(desk_.held(static_cast<std::uint32_t>(number))) : Split::kHost;
}

// Until now_ns, which the device has come to, and nobody has looked at yet, every job was as it is.
void Simulation::follow(std::int64_t now_ns) {
  const auto used_ns = [this](std::size_t number) {
    const std::int64_t before_ns = followed_[number].device_ns;
    followed_[number].device_ns = jobs_[number]->device_ns();
    return followed_[number].device_ns - before_ns;
  };
  const std::int64_t first_ns = used_ns(0);
  for (std::size_t i = 1; i < jobs_.size(); ++i) {
    Split& split = followed_[i].split;
    const std::int64_t own_ns = used_ns(i);
    split.spent(own_ns, Split::kRuns, false);
    split.spent(first_ns, state_of(i), true);
    split.spent(now_ns - followed_until_ns_ - first_ns - own_ns, state_of(i), false);
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
    if (desk_.next_ns() <= now) decide(now);
    for (const auto& job : jobs_)
      while (job->next_ns() <= now) job->act(now);
  }
}

} // namespace fikit::simulator
