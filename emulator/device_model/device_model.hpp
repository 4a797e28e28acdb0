// What the emulated device does with the work that processes give it: a discrete-event loop over DeviceState.
//
// Streams are FIFO. The compute engine belongs to one process at a time, or to all MPS clients: round robin in slices
// (preempting kernels), or kernel by kernel when slice_ns is 0 (compute_queue.cpp). Who has it runs `concurrency`
// kernels of each process side by side: all at once, at speeds that follow from their demands (overlap.cpp), or of MPS
// clients as many as there is room for (admission.cpp). Two copy engines run beside it. The object holds no state of its own and takes no lock: the caller owns the state while it calls (Segment's
// lock, or one thread).
//
// Crash safety: a caller may be killed between any two instructions. Every change therefore ends with ONE store that
// makes it true (tail, done, engine.stream, pid), the stores before it are harmless without it, and repair() rebuilds
// the rest. Two exceptions: a caller killed while a running kernel changes its speed makes that kernel's end wrong by up
// to the time since it last did; one killed while it enqueues or completes an op that names managed memory leaves the
// stream's names one op off until the stream is empty.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "state.hpp"
#include "trace.hpp"

namespace emu {

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

inline EngineId engine_of(OpKind kind) {
  if (kind == OpKind::copy_in) return kCopyIn;
  if (kind == OpKind::copy_out) return kCopyOut;
  return kCompute;
}

inline bool is_marker(OpKind kind) { return kind == OpKind::marker || kind == OpKind::timed_event; }
inline bool needs_engine(OpKind kind) { return !is_marker(kind) && kind != OpKind::host; }

struct OpRequest {
  OpKind kind = OpKind::marker;
  int64_t duration_ns = 0;
  int wait_stream = kNone;
  uint64_t wait_seq = 0;
  int16_t error = 0;  // see Op
  uint64_t record = 0;  // from Trace::add
  int64_t submission_ns = 0;  // its way to the device, one op of a stream after another
  int64_t overlap_ns = 0;     // programmatic dependent launch: so much of it may run beside the end of the kernel before it
  double demand = 1;    // share of the device at full speed, above 0 and at most 1, and...
  uint64_t waves = 1;   // ...as occupancy.hpp has them
  Move move = Move::none;
  std::span<const ChunkRange> ranges = {};  // of managed memory; what is beyond kRangesOfOp of them is not looked at
};

class DeviceModel {
 public:
  // `trace`: where the ops that have a record there are followed.
  explicit DeviceModel(DeviceState& state, Trace* trace = nullptr) : s_(state), trace_(trace) {}

  // A fresh device.
  static void initialise(DeviceState& state, const DeviceParameters& parameters);

  // --- processes and streams; kNone when every slot is taken.
  int attach(int32_t pid, uint64_t pid_start, int64_t now_ns, const Membership& membership = {});
  // Drops a process: its queued work, streams and memory. Its account moves to the history.
  void retire(int process);
  // kNone on a lost device, too.
  int open_stream(int process, int priority, int32_t context = 0);
  // Only for a drained stream.
  void close_stream(int stream);

  // --- work
  bool full(int stream) const;
  // Returns the op's sequence number in its stream. Precondition: !full(stream), advanced to now.
  uint64_t enqueue(int stream, const OpRequest& request);
  // Plays everything that happens up to now_ns.
  void advance(int64_t now_ns);
  // The next moment at which something happens by itself, kNever when nothing will: where a simulator advances to.
  int64_t next_event_ns() {
    if (s_.quiet_until_ns == 0) advance(s_.time_ns);
    return s_.quiet_until_ns;
  }
  bool done(int stream, uint64_t seq) const { return s_.streams[stream].done > seq; }
  // The earliest moment at which op `seq` can be done as far as known now: others can only delay it.
  // kNever: a host function stands before it, which only its owner can end.
  int64_t earliest_end(int stream, uint64_t seq) const;
  // True when op `seq` is a host function whose turn has come.
  bool host_ready(int stream, uint64_t seq) const;
  // Its owner calls it now.
  void start_host(int stream, uint64_t seq);
  void complete_host(int stream, uint64_t seq);
  // The error that killed the stream's context, 0 while it lives. Its ops from dropped() on never ran, or failed.
  int error(int stream) const { return s_.streams[stream].error; }
  uint64_t dropped(int stream) const { return s_.streams[stream].dropped; }
  // The process gives a context up: what is queued in its streams is dropped, what runs ends here.
  void abandon(int process, int32_t context);
  // All contexts of a process fail, and it can make no new one: its MPS server ended it, or is gone.
  void fail_process(int process, int error);
  // The whole device is gone: every context on it fails with kDeviceLost, and no new one can be made until restore().
  void lose();
  void restore() { s_.lost = 0; }
  const Op& op(int stream, uint64_t seq) const { return op_of(s_, stream, seq); }
  static const Op& op_of(const DeviceState& state, int stream, uint64_t seq) {
    return state.streams[stream].ring[seq % kRingOps];
  }

  // --- memory: false when the device has not that much left. Managed memory makes room; `ready_ns`: when it has.
  bool reserve(int process, uint64_t bytes, int64_t* ready_ns = nullptr);
  void release(int process, uint64_t bytes);
  uint64_t memory_used() const;
  // Managed memory, which is on the device while it is used there and there is room. The number of chunks, of which `first` is
  // the first; 0: there are not so many.
  int map_managed(int process, uint64_t bytes, int32_t& first);
  void unmap_managed(int process, ChunkRange range);

  // Device time used by a process, or by all (kNone), including what is running at the moment.
  int64_t busy_ns(int process) const;
  // Device work that a process has done: its kernels' time at full speed x demand, in ns of the whole device.
  int64_t work_ns(int process) const;
  // The demands of its kernels on the compute engine at the moment.
  std::vector<double> demands(int process) const;
  // Share of the last sample period in which the compute engine worked for a process, or for any (kNone); 0 to 1.
  double utilisation(int process) const;
  // True when the process has work that is not done.
  bool has_work(int process) const;

  // Makes the state consistent after a caller died in the middle of any of the above.
  void repair();

  DeviceState& state() { return s_; }
  const DeviceState& state() const { return s_; }
  Trace* trace() const { return trace_; }
  // Null while ops are not recorded.
  Trace* recording() const { return trace_ != nullptr && trace_->on != 0 ? trace_ : nullptr; }

 private:
  // Orders the stores before it against the one store that makes a change true, for a process killed between them.
  static void commit_point() { std::atomic_signal_fence(std::memory_order_seq_cst); }
  Op& at(int stream, uint64_t seq) { return s_.streams[stream].ring[seq % kRingOps]; }
  const Op& head(int stream) const { return op(stream, s_.streams[stream].done); }
  bool is_busy(int stream) const { return (s_.busy[stream / 64] >> (stream % 64)) & 1; }
  bool may_start(const Op& op) const { return op.wait_stream == kNone || done(op.wait_stream, op.wait_seq); }
  // Its turn has come as far as its stream is concerned: only an engine is missing.
  bool ready(const Op& op) const { return may_start(op) && op.ready_ns <= s_.time_ns; }
  bool is_client(int process) const { return (s_.clients >> process) & 1; }
  // The holder's next kernel is on the device already.
  bool in_line() const { return s_.time_ns < s_.line_until_ns; }
  // Whose turn the process's kernels run in.
  int turn_of(int process) const { return is_client(process) ? kMpsGroup : process; }
  bool yields_to_normal(int process) const {
    return s_.processes[process].priority != 0 && is_client(process) && s_.sharing != Sharing::merged;
  }
  // What can happen now, as far as the streams are concerned.
  struct Survey {
    uint64_t waiting = 0;  // processes with a kernel whose turn has come; one that runs counts
    uint64_t streams[kMaxStreams / 64];  // whose first op is such a kernel; as many words as `busy` has
    int copy[2] = {kNone, kNone};  // the stream whose copy is next, by engine
    int64_t ready_ns = kNever;     // when the next op that is still on its way to the device arrives there
    bool settled = true;           // nothing was completed while looking
  };
  Survey survey();
  void assign_compute(const Survey& seen, bool rotate);
  int next_for_compute(const Survey& seen, int first, bool holder_only) const;
  int free_slot() const;
  bool at_limit(int process) const;
  bool computing(int process) const { return process == kNone ? s_.running > 0 : s_.processes[process].running > 0; }
  void start(int engine, int stream);
  void stop_account(int engine);
  void clear(int engine);
  void complete(int stream, int64_t ran_ns = 0);
  int64_t gap_between(OpKind before, OpKind next) const;
  void begin_behind(int process, const Op& before, int64_t ran_ns, Op& next);
  void kill_context(int process, int32_t context, int error);
  void kill_clients();
  void finish_killing();
  template <typename Dies>
  void kill_streams(int error, Dies dies);
  void preempt();
  bool contended(const Survey& seen) const;
  int64_t slice_of(int turn) const {
    const int64_t own_ns = turn == kMpsGroup ? 0 : s_.processes[turn].slice_ns;
    return own_ns > 0 ? own_ns : s_.slice_ns;
  }
  int64_t slice_end() const;
  int64_t kept_until() const;
  int64_t slice_event(const Survey& seen) const;
  int64_t following_event(const Survey& seen, int64_t slice_event) const;
  // --- residency.cpp
  struct Moved {
    uint64_t in_bytes = 0;
    uint64_t out_bytes = 0;
    uint64_t first_out_bytes = 0;  // of those
    uint64_t missed_bytes = 0;
  };
  void evict(int32_t index, Moved& moved);
  bool make_room(uint64_t bytes, Moved& moved);
  void bring_in(int32_t index, Moved& moved);
  void bring_out(int32_t index, Moved& moved);
  void move(int stream, uint64_t seq, Moved& moved);
  void place(int32_t index, Place where);
  void link_in_list(int32_t index);
  void unlink(int32_t index);
  int64_t link_end(int engine) const;
  int64_t use_link(int engine, int64_t begin_ns, int64_t ns);
  int64_t transfer(const Moved& moved);
  int64_t wait_for_memory(int id, int stream);
  bool ranges_fit(const StreamState& stream) const;
  void name_ranges(StreamState& stream, Op& op, std::span<const ChunkRange> ranges);
  void forget_managed(int process);
  void repair_managed();
  uint64_t pinned_bytes() const;
  // --- admission.cpp
  bool by_admission() const { return s_.mps_model == MpsModel::admission && s_.sharing != Sharing::merged; }
  bool has_room(int stream) const;
  bool admit(int stream);
  bool make_way();
  bool way_can_be_made(int process) const;
  int64_t wave_end(const Engine& engine) const;
  // --- overlap.cpp
  struct Left {
    int64_t ns;
    uint32_t part;
    // Time that it takes at full speed.
    int64_t up() const { return ns + (part != 0 ? 1 : 0); }
  };
  Left left_at(const Engine& engine, int64_t t_ns) const;
  void settle(Engine& engine, int64_t until_ns);
  void set_rate(Engine& engine, uint64_t rate);
  void hold_places();
  int32_t room_behind_normal() const;
  void share_out();
  int64_t hold_event() const;
  int64_t earliest_of_running(const Engine& engine) const;
  // The next advance() looks at everything anew: what the caller changes may make something happen.
  void disturb() { s_.quiet_until_ns = 0; }
  void drop_records(int stream);
  int64_t earliest_start(int stream) const;
  int64_t earliest_compute(int stream) const;
  template <typename Visit>
  void for_busy_streams(Visit&& visit) const {
    for (int word = 0; word < s_.busy_words; ++word) {
      for (uint64_t bits = s_.busy[word]; bits != 0; bits &= bits - 1) visit(word * 64 + std::countr_zero(bits));
    }
  }
  template <typename Visit>
  void for_running(Visit&& visit) const {
    if (s_.running == 1 && s_.slots[0] == 1) {  // as nearly always without MPS
      visit(kCompute);
      return;
    }
    for (int word = 0; word < kMaxConcurrent / 64; ++word) {
      for (uint64_t bits = s_.slots[word]; bits != 0; bits &= bits - 1)
        visit(kCompute + word * 64 + std::countr_zero(bits));
    }
  }

  DeviceState& s_;
  Trace* trace_;
};

}  // namespace emu
