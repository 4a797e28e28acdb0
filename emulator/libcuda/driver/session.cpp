#include "libcuda/driver/session.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <thread>

#include "device_model/liveness.hpp"
#include "libcuda/driver/faults.hpp"
#include "libcuda/driver/host_thread.hpp"
#include "libcuda/memory/managed.hpp"
#include "libcuda/memory/virtual_memory.hpp"

namespace emu {
namespace {

// Nobody wakes a sleeper when a process ahead of it dies: look again after this long.
constexpr int64_t kLongestSleepNs = 20'000'000;
constexpr int64_t kDeadCheckNs = 10'000'000;
constexpr int64_t kMemoryPollNs = 500'000;
// A host function's end is announced; this is only how long a lost announcement could cost.
constexpr auto kHostPoll = std::chrono::milliseconds(1);
// What never ends takes eleven days: far beyond any test, and sums of it do not overflow.
constexpr int64_t kForeverNs = 1'000'000'000'000'000;

}  // namespace

Session::Session(Segment segment, int index, const Config& config, const MpsClient& mps, uint64_t memory_limit)
    : segment_(std::move(segment)),
      index_(index),
      dilation_(config.dilation),
      times_(config.driver),
      mps_(mps),
      memory_limit_(memory_limit) {
  Segment::Lock device(segment_);
  retire_dead(*device, true);
  require(!mps.is_client() || device->state().mps_fault == 0, CUDA_ERROR_MPS_SERVER_NOT_READY);
  const Membership membership{.mps = mps.is_client(), .priority = mps.priority(), .server = mps.server()};
  process_ = device->attach(getpid(), process_start(getpid()), clock_.now_ns(), membership);
  if (process_ == kNone)
    throw std::runtime_error("emucuda: couldn't attach to the emulated GPU: " + std::to_string(kMaxProcesses) +
                             " processes use it already");
}

bool Session::enter_context() {
  int64_t ready_ns = 0;
  const std::lock_guard lock(mutex_);
  Segment::Lock device(segment_);
  require(device->state().lost == 0, static_cast<CUresult>(device->state().lost));
  const int failed = device->state().processes[process_].failed;
  require(failed == 0, static_cast<CUresult>(failed));
  require(!mps_.is_client() || device->state().mps_fault == 0, CUDA_ERROR_MPS_SERVER_NOT_READY);
  require(!mps_.server_gone(), CUDA_ERROR_MPS_RPC_FAILURE);
  if (contexts_ == 0 && !reserve(*device, device->state().context_memory_bytes, ready_ns)) return false;
  ++contexts_;
  return true;
}

void Session::leave_context() {
  const std::lock_guard lock(mutex_);
  if (--contexts_ > 0) return;
  Segment::Lock device(segment_);
  device->release(process_, device->state().context_memory_bytes);
}

Queue* Session::open_queue(Queue* legacy, bool blocking, int priority, uint64_t context, uint64_t id,
                           Health health) {
  const std::lock_guard lock(mutex_);
  Segment::Lock device(segment_);
  const int slot = device->open_stream(process_, priority, static_cast<int32_t>(context));
  if (slot == kNone) return nullptr;
  auto queue = std::make_unique<Queue>();
  queue->slot = slot;
  queue->blocking = blocking;
  queue->legacy = legacy == nullptr ? queue.get() : legacy;
  queue->context = context;
  queue->id = id;
  queue->health = std::move(health);
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

void Session::abandon(uint64_t context, const Health& health) {
  std::unique_lock lock(mutex_);
  {
    Segment::Lock device(segment_);
    play(*device);
    device->abandon(process_, static_cast<int32_t>(context));
    play(*device);
  }
  apply_effects();
  host_done_.wait(lock, [&] {
    const auto pending = [&](const HostCall& call) { return call.context == context; };
    const bool waited_for = std::find(waiting_.begin(), waiting_.end(), health.get()) != waiting_.end();
    return !waited_for && called_context_ != context && std::none_of(host_calls_.begin(), host_calls_.end(), pending);
  });
}

Session::Waiting::Waiting(Session& session, const Health& health) : session_(session), whose_(health.get()) {
  session_.waiting_.push_back(whose_);
}

Session::Waiting::~Waiting() {
  session_.waiting_.erase(std::find(session_.waiting_.begin(), session_.waiting_.end(), whose_));
  session_.host_done_.notify_all();
}

// Advances the shared device and notes what of ours is done, or killed.
void Session::play(DeviceModel& device) {
  const int64_t now = clock_.now_ns();
  if (now - device.state().checked_ns > kDeadCheckNs) {
    device.state().checked_ns = now;
    retire_dead(device, false);
  }
  device.advance(now);
  if (mps_.server() != 0 && now - server_checked_ns_ > kDeadCheckNs) {
    server_checked_ns_ = now;
    if (mps_.server_gone()) device.fail_process(process_, CUDA_ERROR_MPS_RPC_FAILURE);
  }
  for (auto& queue : queues_) {
    queue->done = device.state().streams[queue->slot].done;
    const int error = device.error(queue->slot);
    if (error == 0 || queue->dropped != UINT64_MAX) continue;
    queue->dropped = device.dropped(queue->slot);
    queue->health->store(static_cast<CUresult>(error));
  }
}

// Of the work that a killed context had queued, nothing happens but the giving back; its callbacks learn the error.
void Session::drop_work(Queue& queue) {
  for (Queue::Effect& effect : queue.effects) {
    if (effect.frees) effect.apply({});
  }
  queue.effects.clear();
  for (HostCall& call : host_calls_) {
    if (call.queue != &queue) continue;
    call.queue = nullptr;
    call.status = queue.health->load();
    host_work_.notify_one();
  }
}

// In the order of completion across streams, because a copy in one may depend on a copy in another.
void Session::apply_effects() {
  for (;;) {
    Queue* first = nullptr;
    const Op* first_op = nullptr;
    for (auto& queue : queues_) {
      if (queue->effects.empty() || queue->effects.front().seq >= std::min(queue->done, queue->dropped)) continue;
      const Op& op = DeviceModel::op_of(segment_.shared_state(), queue->slot, queue->effects.front().seq);
      if (first == nullptr || op.completion < first_op->completion) {
        first = queue.get();
        first_op = &op;
      }
    }
    if (first == nullptr) break;
    const auto effect = std::move(first->effects.front().apply);
    first->effects.pop_front();
    effect({first_op->start_ns, first_op->end_ns});
  }
  bool closed = false;
  for (auto& queue : queues_) {
    if (queue->dropped != UINT64_MAX) drop_work(*queue);
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

// The op's number in the trace, 0 while nothing is recorded.
uint64_t Session::record(const DeviceModel& device, const Queue& queue, const Command& command, int64_t work_ns,
                         double demand) const {
  Trace* trace = device.recording();
  if (trace == nullptr) return 0;
  TraceRecord record{};
  record.enqueue_ns = device.state().time_ns;
  record.work_ns = work_ns;
  record.demand = static_cast<float>(demand);
  record.seq = queue.tail;
  record.context = queue.context;
  record.stream = queue.id;
  record.bytes = command.bytes;
  record.pid = device.state().processes[process_].pid;
  std::copy_n(command.shape.grid, 3, record.grid);
  std::copy_n(command.shape.block, 3, record.block);
  record.kind = static_cast<uint8_t>(command.kind);
  return trace->add(record, command.kernel == nullptr ? "" : std::string_view(*command.kernel));
}

int64_t Session::stretched(int64_t ns) const {
  return std::llround(std::min(static_cast<double>(ns) * dilation_, double{kForeverNs}));
}

uint64_t Session::push(DeviceModel& device, Queue& queue, const Command& command, std::span<const ChunkRange> ranges) {
  // On fewer multiprocessors than it would fill a kernel takes longer.
  const Occupancy whole = occupancy(command.footprint);
  const Occupancy share = occupancy(command.footprint, mps_.multiprocessors());
  const auto capped_ns = [&](int64_t ns) {
    return whole.demand == share.demand ? ns : std::llround(static_cast<double>(ns) * whole.demand / share.demand);
  };
  const int64_t work_ns = stretched(capped_ns(command.duration_ns));
  const OpRequest request{
      .kind = command.kind,
      .duration_ns = work_ns,
      .wait_stream = command.wait_stream,
      .wait_seq = command.wait_seq,
      .error = static_cast<int16_t>(command.error),
      .record = record(device, queue, command, work_ns, share.demand),
      .submission_ns = stretched(needs_engine(command.kind) ? times_.submission_ns : times_.event_ns),
      .overlap_ns = command.dependent ? stretched(times_.dependent_overlap_ns) : 0,
      .demand = share.demand,
      .waves = share.waves,
      .move = command.move,
      .ranges = ranges};
  queue.tail = device.enqueue(queue.slot, request) + 1;
  if (command.signal != 0) raise(command.signal);  // with the device's lock held: the next one to take it repairs
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

// Every enqueueing is a launch of its own, a graph's too: that is where injected faults strike.
void Session::inject(Command& command) const {
  Faults* faults = g_faults.load(std::memory_order_acquire);
  if (command.kernel == nullptr || faults == nullptr || !faults->armed()) return;
  const KernelFault fault = faults->on_kernel(*command.kernel, index_);
  command.duration_ns =
      fault.hang ? kForeverNs : std::llround(static_cast<double>(command.duration_ns) * fault.slow);
  command.error = static_cast<CUresult>(fault.error);
  command.signal = fault.signal;
}

uint64_t Session::enqueue(Queue& queue, Command command) {
  return *enqueue_where([&queue] { return &queue; }, std::move(command));
}

std::optional<uint64_t> Session::enqueue_where(const std::function<Queue*()>& find, Command command) {
  inject(command);
  if (command.kind == OpKind::kernel && address_space().faults(command.memory)) command.error = CUDA_ERROR_ILLEGAL_ADDRESS;
  const std::vector<ChunkRange> ranges = managed_ranges(*this, command.memory);
  std::unique_lock lock(mutex_);
  std::optional<Waiting> waiting;
  while (Queue* found = find()) {
    if (blocked_) {
      host_done_.wait(lock);
      continue;
    }
    Queue& queue = *found;
    uint64_t seq = 0;
    int64_t bound = 0;
    bool pushed = false;
    bool blocks = false;
    {
      Segment::Lock device(segment_);
      play(*device);
      if (queue.health->load() != CUDA_SUCCESS) {
        bound = kNever;  // it throws below
      } else if (room(queue) && !device->full(queue.slot)) {
        push_barriers(*device, queue);
        blocks = command.blocks && queue.done == queue.tail;
        seq = push(*device, queue, command, ranges);
        pushed = true;
      } else {
        bound = device->earliest_end(queue.slot, queue.done);
      }
    }
    if (pushed && command.effect) queue.effects.push_back({seq, command.frees, std::move(command.effect)});
    if (pushed && (command.kind == OpKind::host || command.prompt)) {
      host_calls_.push_back({&queue, queue.context, queue.slot, seq, CUDA_SUCCESS, std::move(command.host_function),
                             std::move(command.condition)});
      if (!host_thread_started_) start_quiet_thread([this] { host_loop(); });
      host_thread_started_ = true;
      host_work_.notify_one();
    }
    apply_effects();
    if (blocks) block(lock, queue.slot, seq, Health(queue.health));  // the queue may go meanwhile
    if (pushed) return seq;
    require_alive(queue.health);
    if (!waiting) waiting.emplace(*this, queue.health);
    sleep(lock, bound);
  }
  return std::nullopt;
}

// Returns when the op is over, or its context killed.
void Session::block(std::unique_lock<std::mutex>& lock, int slot, uint64_t seq, const Health& health) {
  blocked_ = true;
  lock.unlock();
  wait_done(slot, seq, health);
  lock.lock();
  blocked_ = false;
  host_done_.notify_all();
}

bool Session::poll(const std::function<bool()>& reached) {
  const std::lock_guard lock(mutex_);
  { play(*Segment::Lock(segment_)); }
  apply_effects();
  return reached();
}

void Session::wait_until(int slot, const Health& health, const std::function<bool()>& reached, const std::function<uint64_t()>& seq) {
  std::unique_lock lock(mutex_);
  const Waiting waiting(*this, health);
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
    require_alive(health);
    if (finished || reached()) return;
    sleep(lock, bound);
  }
}

void Session::wait_done(int slot, uint64_t seq, const Health& health) {
  try {
    wait(slot, seq, health, [&] { return segment_.shared_state().streams[slot].done > seq; });
  } catch (const Failure&) {
    // Its context was killed: it is done, too.
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

bool Session::due(DeviceModel& device, const HostCall& call) const {
  if (call.queue == nullptr) return true;
  if (!call.function) return device.done(call.slot, call.seq);
  return device.host_ready(call.slot, call.seq) && (!call.condition || call.condition());
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
        if (due(*device, *call)) ready = call;
        if (call->queue != nullptr) bound = std::min(bound, device->earliest_end(call->slot, call->seq));
        // Nobody tells of a store to memory: a stream that waits for one looks again after a while.
        if (call->condition) bound = std::min(bound, clock_.now_ns() + kMemoryPollNs);
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
    const int slot = call.queue == nullptr ? kNone : call.slot;  // the queue may go meanwhile
    if (call.function) {  // else its effect has just been applied
      called_context_ = call.context;
      if (slot != kNone) Segment::Lock(segment_)->start_host(slot, call.seq);
      lock.unlock();
      call.function(call.status);
      lock.lock();
      called_context_ = 0;
    }
    if (call.function && slot != kNone) {
      Segment::Lock device(segment_);
      device->advance(clock_.now_ns());
      device->complete_host(slot, call.seq);
    }
    host_done_.notify_all();
  }
}

void Session::pause(const std::function<void()>& action) {
  const std::lock_guard lock(mutex_);
  action();
}

// Returns when the room is there: what was evicted for it has been copied out.
bool Session::reserve(uint64_t bytes) {
  int64_t ready_ns = 0;
  {
    const std::lock_guard lock(mutex_);
    Segment::Lock device(segment_);
    device->advance(clock_.now_ns());
    if (!reserve(*device, bytes, ready_ns)) return false;
  }
  if (ready_ns > clock_.now_ns()) clock_.sleep_until(ready_ns);
  return true;
}

bool Session::reserve(DeviceModel& device, uint64_t bytes, int64_t& ready_ns) const {
  const uint64_t has = device.state().processes[process_].memory_bytes;
  if (has > memory_limit_ || bytes > memory_limit_ - has) return false;
  if (device.reserve(process_, bytes, &ready_ns)) return true;
  retire_dead(device, true);
  return device.reserve(process_, bytes, &ready_ns);
}

ChunkRange Session::map_managed(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  Segment::Lock device(segment_);
  ChunkRange range{};
  range.count = device->map_managed(process_, bytes, range.first);
  managed_chunks_ += range.count;
  return range;
}

// Called while effects are applied too, with mutex_ held.
void Session::unmap_managed(ChunkRange range) {
  Segment::Lock device(segment_);
  device->unmap_managed(process_, range);
  managed_chunks_ -= range.count;
}

bool Session::on_device(int32_t chunk) {
  Segment::Lock device(segment_);
  return device->state().managed.chunks[chunk].place == Place::device;
}

int64_t Session::chunks_elsewhere(std::span<const ChunkRange> ranges) {
  Segment::Lock device(segment_);
  int64_t found = 0;
  for (const ChunkRange& range : ranges)
    for (int32_t i = range.first; i < range.first + range.count; ++i)
      found += device->state().managed.chunks[i].place == Place::device ? 0 : 1;
  return found;
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
