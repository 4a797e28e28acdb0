#include "model_target.hpp"

#include <algorithm>
#include <stdexcept>

#include "../op_kind.hpp"

namespace replay {
namespace {

// Every recorded stream runs beside the others, as the recording's did; what contention does is not a recording's
// matter.
emu::DeviceParameters parameters_of(const Plan& plan) {
  emu::DeviceParameters parameters;
  parameters.launch_latency_ns = plan.launch_latency_ns;
  parameters.kernel_gap_ns = plan.kernel_gap_ns;
  int streams = 1;
  for (const Step& step : plan.steps) streams = std::max(streams, step.event->stream + 1);
  parameters.concurrency = std::min(streams, emu::kMaxConcurrent);
  parameters.sharing = emu::Sharing::merged;
  return parameters;
}

// Copies that ran beside each other on the recorded device do so here: not on the model's copy engine.
emu::OpKind kind_of(EventKind kind, const Plan& plan) {
  const bool beside = (kind == EventKind::copy_to_device && !plan.uploads_queue) ||
                      (kind == EventKind::copy_to_host && !plan.downloads_queue);
  return beside ? emu::OpKind::fill : op_kind(kind);
}

}  // namespace

ModelTarget::ModelTarget(const Plan& plan) : plan_(plan), state_(std::make_unique<emu::DeviceState>()), model_(*state_) {
  emu::DeviceModel::initialise(*state_, parameters_of(plan));
  sleep_until(1);  // 0 would read as "no first op yet" in the accounts
  process_ = model_.attach(1, 1, now_ns());
  numbered_.resize(static_cast<size_t>(plan.numbers));
}

void ModelTarget::sleep_until(int64_t t_ns) {
  clock_.sleep_until(t_ns);
  model_.advance(clock_.now_ns());
}

int ModelTarget::slot_of(int stream) {
  const auto known = slots_.find(stream);
  if (known != slots_.end()) return known->second;
  int slot = model_.open_stream(process_, 0);
  if (slot == emu::kNone && give_drained_back()) slot = model_.open_stream(process_, 0);
  if (slot == emu::kNone)
    throw std::runtime_error("couldn't play the recording: it uses more than " + std::to_string(emu::kMaxStreams) +
                             " streams at once");
  slots_[stream] = slot;
  return slot;
}

// Streams with nothing to do make room for others. False: there is none.
bool ModelTarget::give_drained_back() {
  return std::erase_if(slots_, [this](const auto& entry) {
           const emu::StreamState& stream = state_->streams[entry.second];
           if (stream.done != stream.tail) return false;
           model_.close_stream(entry.second);
           return true;
         }) > 0;
}

void ModelTarget::enqueue(int slot, const emu::OpRequest& request) {
  while (model_.full(slot)) sleep_until(model_.earliest_end(slot, state_->streams[slot].done));
  model_.enqueue(slot, request);
}

void ModelTarget::issue(const Step& step) {
  const int slot = slot_of(step.event->stream);
  if (step.behind >= 0) {
    const auto& [other, seq] = numbered_[static_cast<size_t>(step.behind)];
    enqueue(slot, {.wait_stream = other, .wait_seq = seq});
  }
  enqueue(slot, {kind_of(step.event->kind, plan_), step.event->duration_ns});
  if (step.number >= 0) numbered_[static_cast<size_t>(step.number)] = {slot, state_->streams[slot].tail - 1};
}

void ModelTarget::wait_for(int slot, uint64_t seq) {
  while (!model_.done(slot, seq)) sleep_until(model_.earliest_end(slot, seq));
}

void ModelTarget::wait_for_stream(int stream) {
  const auto known = slots_.find(stream);
  if (known == slots_.end()) return;  // drained long ago
  const int slot = known->second;
  const uint64_t tail = state_->streams[slot].tail;
  if (tail > 0) wait_for(slot, tail - 1);
}

void ModelTarget::wait_for_all() {
  for (const auto& [stream, slot] : slots_) wait_for_stream(stream);
}

void ModelTarget::wait_for_number(int number) {
  const auto& [slot, seq] = numbered_[static_cast<size_t>(number)];
  wait_for(slot, seq);
}

void ModelTarget::mark(const Step& step) {
  if (step.event->kind == EventKind::synchronize && step.behind >= 0) {
    marks_[step.mark].push_back(numbered_[static_cast<size_t>(step.behind)]);
    return;
  }
  for (const auto& [stream, slot] : slots_) {
    const bool meant = step.event->kind == EventKind::synchronize || stream == step.event->stream;
    if (meant && state_->streams[slot].tail > 0) marks_[step.mark].emplace_back(slot, state_->streams[slot].tail - 1);
  }
}

int64_t ModelTarget::wait_for_mark(int mark) {
  int64_t end_ns = 0;
  for (const auto& [slot, seq] : marks_[mark]) {
    wait_for(slot, seq);
    if (state_->streams[slot].tail - seq <= emu::kRingOps) end_ns = std::max(end_ns, model_.op(slot, seq).end_ns);
  }
  marks_.erase(mark);
  return end_ns;
}

int64_t ModelTarget::span_ns() {
  const emu::ProcessState& process = state_->processes[process_];
  return process.last_ns - process.first_ns;
}

}  // namespace replay
