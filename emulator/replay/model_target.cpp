#include "model_target.hpp"

#include <stdexcept>

#include "op_kind.hpp"

namespace replay {
namespace {

// Every recorded stream runs beside the others, as the recording's did; what contention does is not a recording's
// matter.
emu::DeviceParameters parameters_of(const Plan& plan) {
  emu::DeviceParameters parameters;
  parameters.launch_latency_ns = plan.launch_latency_ns;
  parameters.kernel_gap_ns = plan.kernel_gap_ns;
  parameters.concurrency = emu::kMaxConcurrent;
  return parameters;
}

}  // namespace

ModelTarget::ModelTarget(const Plan& plan) : state_(std::make_unique<emu::DeviceState>()), model_(*state_) {
  emu::DeviceModel::initialise(*state_, parameters_of(plan));
  sleep_until(1);  // 0 would read as "no first op yet" in the accounts
  process_ = model_.attach(1, 1, now_ns());
}

void ModelTarget::sleep_until(int64_t t_ns) {
  clock_.sleep_until(t_ns);
  model_.advance(clock_.now_ns());
}

int ModelTarget::slot_of(int stream) {
  const auto [slot, fresh] = slots_.try_emplace(stream, emu::kNone);
  if (fresh) slot->second = model_.open_stream(process_, 0);
  if (slot->second == emu::kNone)
    throw std::runtime_error("couldn't play the recording: it uses more than " + std::to_string(emu::kMaxStreams) +
                             " streams");
  return slot->second;
}

void ModelTarget::issue(const Step& step) {
  const int slot = slot_of(step.event->stream);
  while (model_.full(slot)) sleep_until(model_.earliest_end(slot, state_->streams[slot].done));
  model_.enqueue(slot, {op_kind(step.event->kind), step.event->duration_ns});
}

void ModelTarget::wait_for(int slot, uint64_t seq) {
  while (!model_.done(slot, seq)) sleep_until(model_.earliest_end(slot, seq));
}

void ModelTarget::wait_for_stream(int stream) {
  const int slot = slot_of(stream);
  const uint64_t tail = state_->streams[slot].tail;
  if (tail > 0) wait_for(slot, tail - 1);
}

void ModelTarget::wait_for_all() {
  for (const auto& [stream, slot] : slots_) wait_for_stream(stream);
}

int64_t ModelTarget::span_ns() {
  const emu::ProcessState& process = state_->processes[process_];
  return process.last_ns - process.first_ns;
}

}  // namespace replay
