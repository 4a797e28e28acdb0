// This process's connection to one emulated device: it puts work into the shared model, sleeps until the model says
// that it is done, and then applies the work's effects to this process's memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "device_model/clock.hpp"
#include "device_model/occupancy.hpp"
#include "device_model/segment.hpp"
#include "libcuda/driver/config.hpp"
#include "libcuda/graph/kernel_node.hpp"
#include "libcuda/driver/mps.hpp"
#include "libcuda/driver/objects.hpp"
#include "libcuda/module/test_kernels.hpp"

namespace emu {

// Memory that a command uses; `bytes` 0: the whole allocation around it.
struct Extent {
  uintptr_t at = 0;
  uint64_t bytes = 0;
};

// One piece of device work, as a launch, a copy or a graph node describes it. May be enqueued many times.
struct Command {
  OpKind kind = OpKind::marker;
  int64_t duration_ns = 0;                   // undilated
  std::function<void(const Ran&)> effect = {};  // applied once when the model completes it
  // Only for OpKind::host; the argument is CUDA_SUCCESS, or what killed its context.
  std::function<void(CUresult)> host_function = {};
  std::function<bool()> condition = {};      // only for OpKind::host: the stream stands still until it holds
  bool prompt = false;                       // others watch for the effect: apply it in time, not at the next call
  int wait_stream = kNone;                   // as in OpRequest
  uint64_t wait_seq = 0;
  const std::string* kernel = nullptr;  // its name, by which faults are injected
  bool frees = false;                   // the effect gives something back: it happens in a killed context, too
  CUresult error = CUDA_SUCCESS;        // injected: it fails at its end
  int signal = 0;                       // injected: this process gets it while it enqueues
  Footprint footprint = {};             // what it takes of the device while it runs on the compute engine
  Grid shape = {};                      // of a kernel, and...
  uint64_t bytes = 0;                   // ...of a copy or fill: for the trace
  bool dependent = false;               // a kernel that may begin before the one in front of it has ended
  Move move = Move::use;                // what happens to managed memory among...
  std::vector<Extent> memory = {};      // ...what it uses
  // Where its stream has no work, the call returns when the device is done with it, and no other thread gives the device
  // work meanwhile.
  bool blocks = false;
};

// What killed a context, CUDA_SUCCESS while it lives. Shared by whatever belongs to the context.
using Health = std::shared_ptr<std::atomic<CUresult>>;

inline void require_alive(const Health& health) {
  const CUresult error = health->load(std::memory_order_relaxed);
  require(error == CUDA_SUCCESS, error);
}

// This process's side of a device stream.
struct Queue {
  int slot = kNone;
  bool blocking = true;     // takes part in the legacy default stream's barriers
  Queue* legacy = nullptr;  // the legacy default stream of its context; itself for that one
  uint64_t tail = 0;        // ops enqueued
  uint64_t done = 0;        // ops that the model has completed, as last seen
  uint64_t reaped = 0;      // ops whose effects are applied
  uint64_t context = 0;     // whose it is, and...
  uint64_t id = 0;          // ...which, as the program's calls tell it
  uint64_t barrier = 0;     // tail of the other side when the last barrier between this and the legacy stream was set
  bool closing = false;     // destroyed by the program; the slot is given back when drained
  Health health;
  uint64_t dropped = UINT64_MAX;  // in a killed context: the first op that did not happen
  struct Effect {
    uint64_t seq;
    bool frees;
    std::function<void(const Ran&)> apply;
  };
  std::deque<Effect> effects;
};

// How far a stream has been filled.
struct StreamEnd {
  uint64_t id = 0;
  int slot = kNone;
  uint64_t tail = 0;
};

class Session {
 public:
  // Throws std::runtime_error (a sentence) when the device has no room for one more process, Failure when MPS takes no
  // client now. `mps` must outlive it; `memory_limit`: the bytes that this process may have of the device.
  Session(Segment segment, int index, const Config& config, const MpsClient& mps, uint64_t memory_limit);

  // The memory that a process with contexts on the device occupies besides its allocations. False: there is not enough.
  bool enter_context();
  void leave_context();

  // `context` and `id`: as the program's calls tell contexts and streams apart. Null when every stream is taken.
  Queue* open_queue(Queue* legacy, bool blocking, int priority, uint64_t context, uint64_t id, Health health);
  void close_queue(Queue* queue);
  // Ends a context's work where it is, and returns when nobody waits for it any more and no host function of it runs or
  // will run.
  void abandon(uint64_t context, const Health& health);

  // Returns the op's sequence number. Waits while the stream is full. Like all that waits, throws the Failure that
  // killed the context.
  uint64_t enqueue(Queue& queue, Command command);
  // The same in the stream with this id, which may be destroyed meanwhile: then not at all.
  void enqueue_in(uint64_t id, Command command);
  // Of all streams of a context, those too that are destroyed and still have work.
  std::vector<StreamEnd> ends(uint64_t context);
  void wait(const Queue& queue) {
    wait_until(
        queue.slot, queue.health, [&queue] { return queue.reaped == queue.tail; }, [&queue] { return queue.tail - 1; });
  }
  void wait(int slot, uint64_t seq, const Health& health, const std::function<bool()>& reached) {
    wait_until(slot, health, reached, [seq] { return seq; });
  }
  // For all work of the stream with this id, which may be destroyed meanwhile.
  void wait_for_stream(uint64_t id, const Health& health);
  // For one op, enqueued or given up.
  void wait_done(int slot, uint64_t seq, const Health& health);
  // Plays the device up to now and applies what completed; then answers whether `reached` holds.
  bool poll(const std::function<bool()>& reached);
  bool idle(const Queue& queue) {
    return poll([&queue] { return queue.reaped == queue.tail; });
  }

  // Managed memory: counted while it is on the device only. No chunks: there is no room for so many in the model.
  ChunkRange map_managed(uint64_t bytes);
  void unmap_managed(ChunkRange range);
  bool on_device(int32_t chunk);
  int64_t chunks_elsewhere(std::span<const ChunkRange> ranges);  // than on the device
  bool has_managed() const { return managed_chunks_.load(std::memory_order_relaxed) > 0; }
  // Runs `action` while no work of this process on this device changes memory.
  void pause(const std::function<void()>& action);
  bool reserve(uint64_t bytes);
  void release(uint64_t bytes);
  uint64_t memory_used();
  uint64_t memory_bytes();

  double dilation() const { return dilation_; }
  int64_t stretched(int64_t ns) const;

 private:
  // What the host thread has to do when a stream has come to it.
  struct HostCall {
    Queue* queue;  // null: its context was killed, it is told so at once
    uint64_t context;
    int slot;
    uint64_t seq;
    CUresult status;
    std::function<void(CUresult)> function;  // none: only to be awake when the op completes, for its effect
    std::function<bool()> condition;
  };

  // Announces, with mutex_ held, that a thread waits for a context's work: its queues must live so long.
  class Waiting {
   public:
    Waiting(Session& session, const Health& health);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    Session& session_;
    const void* whose_;
  };

  Queue* queue_of(uint64_t id) const;
  // `find`: the queue, looked up anew with mutex_ held each time that it was not; null: it is gone.
  std::optional<uint64_t> enqueue_where(const std::function<Queue*()>& find, Command command);
  void play(DeviceModel& device);
  void drop_work(Queue& queue);
  void inject(Command& command) const;
  void apply_effects();
  bool reserve(DeviceModel& device, uint64_t bytes, int64_t& ready_ns) const;
  bool room(const Queue& queue) const { return queue.tail - queue.reaped + queues_.size() + 1 <= kRingOps; }
  uint64_t record(const DeviceModel& device, const Queue& queue, const Command& command, int64_t work_ns,
                  double demand) const;
  uint64_t push(DeviceModel& device, Queue& queue, const Command& command, std::span<const ChunkRange> ranges = {});
  void push_barriers(DeviceModel& device, Queue& queue);
  void block(std::unique_lock<std::mutex>& lock, int slot, uint64_t seq, const Health& health);
  void wait_until(int slot, const Health& health, const std::function<bool()>& reached, const std::function<uint64_t()>& seq);
  void sleep(std::unique_lock<std::mutex>& lock, int64_t bound);
  bool due(DeviceModel& device, const HostCall& call) const;
  void host_loop();

  std::mutex mutex_;  // taken before the segment's lock; never held while sleeping
  Segment segment_;
  RealClock clock_;
  const int index_;
  const double dilation_;
  const DriverTimes times_;
  const MpsClient& mps_;
  const uint64_t memory_limit_;
  int64_t server_checked_ns_ = 0;
  int contexts_ = 0;
  std::atomic<int64_t> managed_chunks_{0};
  int process_ = kNone;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::deque<HostCall> host_calls_;
  std::vector<const void*> waiting_;  // whose work threads are waiting for, by the context's Health
  uint64_t called_context_ = 0;  // whose host function is just running; 0: none
  bool host_thread_started_ = false;
  bool blocked_ = false;  // by a call that returns when its work is over
  std::condition_variable host_work_;
  std::condition_variable host_done_;
};

}  // namespace emu
