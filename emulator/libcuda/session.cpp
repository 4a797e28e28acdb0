#include "session.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cmath>
#include <stdexcept>
#include <thread>

#include "../device_model/liveness.hpp"
#include "host_thread.hpp"

namespace emu {
namespace {

// Nobody wakes a sleeper when a process ahead of it dies: look again after this long.
constexpr int64_t kLongestSleepNs = 20'000'000;
constexpr int64_t kDeadCheckNs = 10'000'000;
// A host function's end is announced; this is only how long a lost announcement could cost.
constexpr auto kHostPoll = std::chrono::milliseconds(1);

}  // namespace

Session::Session(Segment segment, double dilation) : segment_(std::move(segment)), dilation_(dilation) {
  Segment::Lock device(segment_);
  retire_dead(*device, true);
  process_ = device->attach(getpid(), process_start(getpid()), clock_.now_ns());
  if (process_ == kNone)
    throw std::runtime_error("emucuda: couldn't attach to the emulated GPU: " + std::to_string(kMaxProcesses) +
                             " processes use it already");
  if (!device->reserve(process_, device->state().context_memory_bytes)) {
    device->retire(process_);
    throw std::bad_alloc();
  }
}

Queue* Session::open_queue(Queue* legacy, bool blocking, int priority) {
  const std::lock_guard lock(mutex_);
  Segment::Lock device(segment_);
  const int slot = device->open_stream(process_, priority);
  if (slot == kNone) return nullptr;
  auto queue = std::make_unique<Queue>();
  queue->slot = slot;
  queue->blocking = blocking;
  queue->legacy = legacy == nullptr ? queue.get() : legacy;
  queue->tail = queue->done = queue->reaped = device->state().streams[slot].tail;
  queues_.push_back(std::move(queue));
  return queues_.back().get();
}

void Session::close_queue(Queue* queue) {
  const std::lock_guard lock(mutex_);
  queue->closing = true;
  { play(*Segment::Lock(segment_)); }
  apply_effects();
}

// Advances the shared device and notes what of ours is done.
void Session::play(DeviceModel& device) {
  const int64_t now = clock_.now_ns();
  if (now - device.state().checked_ns > kDeadCheckNs) {
    device.state().checked_ns = now;
    retire_dead(device, false);
  }
  device.advance(now);
  for (auto& queue : queues_) queue->done = device.state().streams[queue->slot].done;
}

// In the order of completion across streams, because a copy in one may depend on a copy in another.
void Session::apply_effects() {
  for (;;) {
    Queue* first = nullptr;
    const Op* first_op = nullptr;
    for (auto& queue : queues_) {
      if (queue->effects.empty() || queue->effects.front().first >= queue->done) continue;
      const Op& op = DeviceModel::op_of(segment_.shared_state(), queue->slot, queue->effects.front().first);
      if (first == nullptr || op.completion < first_op->completion) {
        first = queue.get();
        first_op = &op;
      }
    }
    if (first == nullptr) break;
    const auto effect = std::move(first->effects.front().second);
    first->effects.pop_front();
    effect(first_op->end_ns);
  }
  bool closed = false;
  for (auto& queue : queues_) {
    queue->reaped = queue->done;
    closed = closed || (queue->closing && queue->reaped == queue->tail);
  }
  if (!closed) return;
  Segment::Lock device(segment_);
  std::erase_if(queues_, [&](const auto& queue) {
    if (!queue->closing || queue->reaped != queue->tail) return false;
    device->close_stream(queue->slot);
    return true;
  });
}

uint64_t Session::push(DeviceModel& device, Queue& queue, const Command& command) {
  const int64_t stretched = std::llround(static_cast<double>(command.duration_ns) * dilation_);
  queue.tail = device.enqueue(queue.slot, {command.kind, stretched, command.wait_stream, command.wait_seq}) + 1;
  return queue.tail - 1;
}

// The legacy default stream waits for every blocking stream of its context, and they wait for it (CUDA manual, "Stream
// synchronization behavior").
void Session::push_barriers(DeviceModel& device, Queue& queue) {
  if (!queue.blocking) return;
  const auto order_after = [&](Queue& waiting, const Queue& other, uint64_t& barrier) {
    if (other.tail == barrier || device.state().streams[other.slot].done == other.tail) return;
    barrier = other.tail;
    push(device, waiting, Command{.wait_stream = other.slot, .wait_seq = other.tail - 1});
  };
  if (queue.legacy != &queue) {
    order_after(queue, *queue.legacy, queue.barrier);
    return;
  }
  for (auto& other : queues_) {
    if (other.get() == &queue || !other->blocking || other->legacy != &queue) continue;
    uint64_t none = 0;
    order_after(queue, *other, none);
  }
}

uint64_t Session::enqueue(Queue& queue, Command command) {
  std::unique_lock lock(mutex_);
  for (;;) {
    uint64_t seq = 0;
    int64_t bound = 0;
    bool pushed = false;
    {
      Segment::Lock device(segment_);
      play(*device);
      if (room(queue)) {
        push_barriers(*device, queue);
        seq = push(*device, queue, command);
        pushed = true;
      } else {
        bound = device->earliest_end(queue.slot, queue.done);
      }
    }
    if (pushed && command.effect) queue.effects.emplace_back(seq, std::move(command.effect));
    if (pushed && command.kind == OpKind::host) {
      host_calls_.push_back({&queue, seq, std::move(command.host_function)});
      if (!host_thread_started_) start_quiet_thread([this] { host_loop(); });
      host_thread_started_ = true;
      host_work_.notify_one();
    }
    apply_effects();
    if (pushed) return seq;
    sleep(lock, bound);
  }
}

bool Session::poll(const std::function<bool()>& reached) {
  const std::lock_guard lock(mutex_);
  { play(*Segment::Lock(segment_)); }
  apply_effects();
  return reached();
}

void Session::wait_until(int slot, const std::function<bool()>& reached, const std::function<uint64_t()>& seq) {
  std::unique_lock lock(mutex_);
  for (;;) {
    int64_t bound = 0;
    bool finished = false;
    {
      Segment::Lock device(segment_);
      play(*device);
      finished = reached();
      if (!finished) bound = device->earliest_end(slot, seq());
    }
    apply_effects();
    if (finished || reached()) return;
    sleep(lock, bound);
  }
}

void Session::sleep(std::unique_lock<std::mutex>& lock, int64_t bound) {
  if (bound == kNever) {
    host_done_.wait_for(lock, kHostPoll);
    return;
  }
  lock.unlock();
  clock_.sleep_until(std::min(bound, clock_.now_ns() + kLongestSleepNs));
  lock.lock();
}

// Runs host functions when their stream has come to them. Started by the first one; sleeps while there is none.
void Session::host_loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    host_work_.wait(lock, [this] { return !host_calls_.empty(); });
    int64_t bound = kNever;
    auto ready = host_calls_.end();
    {
      Segment::Lock device(segment_);
      play(*device);
      for (auto call = host_calls_.begin(); call != host_calls_.end() && ready == host_calls_.end(); ++call) {
        if (device->host_ready(call->queue->slot, call->seq)) ready = call;
        bound = std::min(bound, device->earliest_end(call->queue->slot, call->seq));
      }
    }
    apply_effects();
    if (ready == host_calls_.end()) {
      const int64_t now = clock_.now_ns();
      const int64_t nap = std::clamp<int64_t>(bound == kNever ? 0 : bound - now, 1'000, kLongestSleepNs);
      host_work_.wait_for(lock, std::chrono::nanoseconds(nap));
      continue;
    }
    const HostCall call = std::move(*ready);
    host_calls_.erase(ready);
    lock.unlock();
    call.function();
    lock.lock();
    {
      Segment::Lock device(segment_);
      device->advance(clock_.now_ns());
      device->complete_host(call.queue->slot, call.seq);
    }
    host_done_.notify_all();
  }
}

bool Session::reserve(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  Segment::Lock device(segment_);
  if (device->reserve(process_, bytes)) return true;
  retire_dead(*device, true);
  return device->reserve(process_, bytes);
}

void Session::release(uint64_t bytes) {
  Segment::Lock device(segment_);
  device->release(process_, bytes);
}

uint64_t Session::memory_used() {
  Segment::Lock device(segment_);
  retire_dead(*device, true);
  return device->memory_used();
}

uint64_t Session::memory_bytes() { return Segment::Lock(segment_)->state().memory_bytes; }

}  // namespace emu
