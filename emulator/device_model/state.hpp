// The whole state of one emulated device as plain data: it lies in shared memory between processes, in a process's own
// memory for the simulator. No pointers, fixed sizes. Anything that changes here changes kLayoutVersion.
#pragma once

#include <cstdint>

#include "recent_busy.hpp"

namespace emu {

inline constexpr uint32_t kLayoutVersion = 5;
inline constexpr int kMaxProcesses = 64;
inline constexpr int kMaxStreams = 512;
inline constexpr uint64_t kRingOps =
    1024;  // per stream, power of two: a launch into a full stream waits, as a real driver does
inline constexpr int kHistory = 256;       // dead processes whose accounts are kept
inline constexpr int kMaxConcurrent = 128;  // kernels that may run at the same time
inline constexpr int kNone = -1;
inline constexpr int16_t kContextDestroyed = 709;  // CUDA_ERROR_CONTEXT_IS_DESTROYED
inline constexpr int16_t kDeviceLost = 46;  // CUDA_ERROR_DEVICE_UNAVAILABLE: an op that fails so takes the device along

// What a device is, constant after its creation. Times are device times: a dilated device has stretched ones.
struct DeviceParameters {
  uint64_t memory_bytes = 0;
  uint64_t context_memory_bytes = 0;  // what a process's first context on the device occupies
  int64_t slice_ns = 0;               // 0: a kernel runs to its end, then the next process has its turn
  int64_t switch_ns = 0;              // nothing runs for so long when the compute engine goes to another process
  int64_t launch_latency_ns = 0;      // from the call to the earliest start of its work
  int64_t kernel_gap_ns = 0;          // between two works of one stream that wait in line
  int32_t concurrency = 1;            // kernels of one process that may run at the same time, 1 to kMaxConcurrent
  int32_t merged = 0;                 // 1: all processes share the compute engine as one would, without slices (MPS)
};

enum class OpKind : uint8_t {
  kernel,    // compute engine, sliced between processes
  fill,      // compute engine too (memset, device-to-device copy), but not counted as a kernel
  copy_in,   // host-to-device copy engine, first come first served
  copy_out,  // device-to-host copy engine
  marker,    // takes no time: event record, wait, empty graph node
  host,      // a host function: its stream stands still until the owner says that it returned
};

// One entry of a stream. The owner fills it; whoever advances the device moves it.
struct Op {
  int64_t left_ns;      // device time that it still needs
  int64_t ready_ns;     // does not start before
  int64_t work_end_ns;  // device time of the stream's ops up to and including this one, since the stream's first
  int64_t end_ns;       // when it completed
  uint64_t arrival;     // device-wide order of enqueueing
  uint64_t completion;  // device-wide order of completing
  uint64_t record;      // its number in the trace, 0: none
  uint64_t wait_seq;    // does not start before stream `wait_stream` has completed its op `wait_seq`
  int32_t wait_stream;  // kNone: no such condition
  int16_t error;        // it ends with this CUresult, which kills its context; 0: it succeeds
  OpKind kind;
};

// Sequence numbers only grow, also when the slot gets a new owner: an old (slot, seq) pair always reads "done".
struct StreamState {
  int32_t process;   // kNone: the slot is free
  int32_t priority;  // smaller is served first, within one process
  int32_t context;   // which of its process's contexts it belongs to: an error kills all streams of that one
  int32_t error;     // the CUresult that killed the context, 0 = alive
  uint64_t tail;     // ops enqueued; the next op's seq
  uint64_t done;     // ops completed, or dropped with a killed context
  uint64_t dropped;  // in a killed context: the first op that was dropped
  int64_t work_ns;
  Op ring[kRingOps];
};

struct ProcessState {
  int32_t pid;         // 0: the slot is free
  uint64_t pid_start;  // start time from /proc, against reuse of the pid
  int64_t busy_ns;     // time on the compute engine, up to since_ns if it is there now
  int64_t since_ns;    // on the compute engine without a break since
  uint64_t kernels;    // completed
  uint64_t memory_bytes;
  int64_t first_ns;  // start of its first op, 0 = none yet
  int64_t last_ns;   // end of its latest op
  RecentBusy recent;
};

struct Engine {
  int32_t stream;  // kNone: idle
  uint64_t seq;
  int64_t started_ns;
  int64_t end_ns;
};

// From kCompute on: one entry for each kernel that runs at the same time, `concurrency` of them in use.
enum EngineId { kCopyIn = 0, kCopyOut = 1, kCompute = 2, kEngines = kCompute + kMaxConcurrent };

struct DeviceState : DeviceParameters {
  int64_t time_ns;  // the model is true up to here
  int64_t quiet_until_ns;  // nothing happens by itself before; 0: to be found out. Derived
  uint64_t arrivals;
  uint64_t completions;
  int32_t holder;  // process that has the compute engine, or had it last
  int64_t slice_start_ns;
  int64_t switch_end_ns;  // the compute engine is being handed over until then
  int64_t busy_ns;        // time with a kernel running, up to since_ns if one runs now
  int64_t since_ns;
  RecentBusy recent;
  int64_t checked_ns;  // when somebody last looked for dead processes
  int32_t lost;        // the CUresult with which every context fails until the device is back, 0 = it is there
  uint64_t retired;    // processes ever put into history
  uint64_t repairs;    // how often a process died while it held the lock
  Engine engines[kEngines];
  ProcessState processes[kMaxProcesses];
  ProcessState history[kHistory];
  uint64_t busy[kMaxStreams / 64];  // bit set: the stream has ops that are not done. Derived; repair() rebuilds it
  StreamState streams[kMaxStreams];
};

}  // namespace emu
