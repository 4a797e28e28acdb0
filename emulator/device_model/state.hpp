// The whole state of one emulated device as plain data: it lies in shared memory between processes, in a process's own
// memory for the simulator. No pointers, fixed sizes. Anything that changes here changes kLayoutVersion.
#pragma once

#include <cstdint>

#include "recent_busy.hpp"

namespace emu {

inline constexpr uint32_t kLayoutVersion = 15;
inline constexpr int kMaxProcesses = 64;
inline constexpr int kMaxStreams = 512;
inline constexpr uint64_t kRingOps =
    1024;  // per stream, power of two: a launch into a full stream waits, as a real driver does
inline constexpr int kHistory = 256;       // dead processes whose accounts are kept
inline constexpr int kMaxConcurrent = 128;  // kernels that may run at the same time, of all processes
inline constexpr int32_t kWholeDevice = 1 << 20;            // demands are counted in parts of the device
inline constexpr uint64_t kFullSpeed = uint64_t{1} << 32;  // rates are counted in parts of it
inline constexpr int kMpsGroup = kMaxProcesses;            // as holder: all MPS clients, who share one time slice
inline constexpr int kNone = -1;
inline constexpr uint64_t kChunkBytes = uint64_t{2} << 20;  // managed memory moves in pieces of so much
inline constexpr int kMaxChunks = 1 << 17;                  // managed memory of all processes: 256 GiB
inline constexpr uint8_t kRangesOfOp = 64;                  // pieces of managed memory that one op may name
inline constexpr uint64_t kRingRanges = 1024;               // of a stream's ops that are not done
inline constexpr int16_t kContextDestroyed = 709;  // CUDA_ERROR_CONTEXT_IS_DESTROYED
inline constexpr int16_t kDeviceLost = 46;  // CUDA_ERROR_DEVICE_UNAVAILABLE: an op that fails so takes the device along

// How processes share the compute engine.
enum class Sharing : int32_t {
  slices,  // they take turns; MPS clients, if there are any, have one turn together
  mps,     // every process is an MPS client: kernels of all overlap
  merged,  // for tests: all processes as one, no slices, no switch, and kernels side by side do not slow each other
};

// What MPS clients' kernels do that do not fit beside each other.
enum class MpsModel : int32_t {
  proportion,  // all run, each slows down in proportion (overlap.cpp)
  admission,   // a kernel starts when there is room for it (admission.cpp)
};

// What a device is, constant after its creation. Times are device times: a dilated device has stretched ones.
struct DeviceParameters {
  uint64_t memory_bytes = 0;
  uint64_t context_memory_bytes = 0;  // what a process's first context on the device occupies
  int64_t slice_ns = 0;               // for weight 1; 0: a kernel runs to its end, then the next process has its turn
  int64_t switch_ns = 0;              // nothing runs for so long when the compute engine goes to another process
  int64_t launch_latency_ns = 0;      // from the call to the earliest start of its work
  int64_t kernel_gap_ns = 0;          // between two works of one stream that wait in line
  int64_t event_gap_ns = 0;           // between two timed events that wait in line
  int64_t kernel_event_gap_ns = 0;    // between a work and a timed event that wait in line, in either order
  int32_t concurrency = 1;            // kernels of one process that may run at the same time, 1 to kMaxConcurrent
  Sharing sharing = Sharing::slices;
  MpsModel mps_model = MpsModel::proportion;
  int64_t mps_switch_ns = 0;    // by admission, with Sharing::mps: a kernel that waited for room starts so long after there is some
  int32_t idle_holds = 0;       // 1: a process that has nothing to run keeps the compute engine until its slice ends
  double overlap_slowdown = 1;  // how much longer a kernel takes while a kernel of another process runs beside it
  // Managed memory (residency.cpp). Rates are bytes per ns of its way over the link to the host, by direction.
  double link_in = 24;
  double link_out = 24;
  double link_first_out = 24;     // of a chunk that was never out: the host has no memory for it yet
  double both_ways = 1;           // each direction's share of its rate while the other one is in use, too
  int64_t fault_batch_ns = 30'000;  // the compute engine stands still so long for each batch of faults, and...
  uint64_t fault_batch_bytes = kChunkBytes;  // ...one batch leads to so much memory
};

// What a process is to the device.
struct Membership {
  bool mps = false;   // an MPS client, as every process is where the device is shared by MPS
  int priority = 0;   // of an MPS client: 0 normal, 1 below normal
  double weight = 1;  // of its time slices; MPS clients have their group's slice, of weight 1
  int32_t server = 0;  // pid of its MPS server, 0: none
};

enum class OpKind : uint8_t {
  kernel,    // compute engine, sliced between processes
  fill,      // compute engine too (memset, device-to-device copy), but not counted as a kernel
  copy_in,   // host-to-device copy engine, first come first served
  copy_out,  // device-to-host copy engine
  marker,    // takes no time: event record, wait, empty graph node
  host,      // a host function: its stream stands still until the owner says that it returned
  timed_event,  // a marker that keeps a distance to what it stands in line with
};

// What an op does to the managed memory that it names, when it starts.
enum class Move : uint8_t {
  none,       // it names none
  use,        // what is not on the device comes there first: a miss
  to_device,  // it is nothing but such a move: a prefetch
  to_host,    // the same the other way
};

// One entry of a stream. The owner fills it; whoever advances the device moves it. First what is asked of the head of every
// stream at every event: it shares a cache line.
struct alignas(32) Op {
  int64_t ready_ns;     // does not start before
  uint64_t wait_seq;    // does not start before stream `wait_stream` has completed its op `wait_seq`
  int16_t wait_stream;  // kNone: no such condition
  Move move;
  uint8_t ranges;       // of managed memory that it names: so many in the stream's `ranges`, behind those of the ops before it
  OpKind kind;
  uint8_t waves;        // how often its blocks fill their places, one filling after another
  int16_t error;        // it ends with this CUresult, which kills its context; 0: it succeeds
  uint64_t arrival;     // device-wide order of enqueueing
  int64_t left_ns;      // device time at full speed that it still needs; while it runs: needed at the engine's since_ns
  uint32_t left_part;   // what left_ns lacks, in parts of a ns (kFullSpeed of them)
  int32_t demand;       // share of the device that it takes at full speed, of kWholeDevice
  int64_t overlap_ns;   // of it may run beside the end of the kernel directly before it
  int64_t work_end_ns;  // device time of the stream's ops up to and including this one, since the stream's first
  int64_t start_ns;     // when it began, first; 0: not yet
  int64_t end_ns;       // when it completed
  uint64_t completion;  // device-wide order of completing
  uint64_t record;      // its number in the trace, 0: none
};
static_assert(sizeof(Op) == 96);

// Pieces of managed memory: `count` from `first` on.
struct ChunkRange {
  int32_t first;
  int32_t count;
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
  int64_t submitted_ns;  // when its newest op reaches the device
  uint64_t ranges_tail;  // ranges that its ops named, and...
  uint64_t ranges_done;  // ...those of ops that are done
  Op ring[kRingOps];
  ChunkRange ranges[kRingRanges];
};

struct ProcessState {
  int32_t pid;         // 0: the slot is free
  uint64_t pid_start;  // start time from /proc, against reuse of the pid
  int64_t busy_ns;     // time on the compute engine, up to since_ns if it is there now
  int64_t since_ns;    // on the compute engine without a break since
  int64_t work_ns;     // device work done: time at full speed x demand, in ns of the whole device, and...
  uint32_t work_part;  // ...parts of one (kFullSpeed of them)
  int32_t mps;         // 1: an MPS client
  int32_t priority;    // of an MPS client: 0 normal, 1 below normal
  int32_t server;      // pid of its MPS server, 0: none
  int32_t failed;      // the CUresult with which all its contexts failed at once and it can make no new one, 0: none
  int32_t running;     // its kernels on the compute engine. Derived; repair() counts them
  int64_t slice_ns;    // the length of its time slices; 0: the device's
  uint64_t kernels;    // completed
  uint64_t memory_bytes;    // what stays on the device until it is freed
  uint64_t managed_bytes;   // managed memory. Derived, and...
  uint64_t resident_bytes;  // ...what of it is on the device. Derived
  uint64_t moved_in_bytes;  // over the link, to the device and...
  uint64_t moved_out_bytes;  // ...to the host
  uint64_t missed_chunks;   // that its ops had to wait for, those that nobody had used before too
  uint64_t evicted_chunks;  // that made room for others
  int64_t missing_ns;       // its ops waited for missed chunks
  int64_t first_ns;  // start of its first op, 0 = none yet
  int64_t last_ns;   // end of its latest op
  RecentBusy recent;
};

struct Engine {
  int32_t stream;  // kNone: idle
  uint64_t seq;
  int64_t started_ns;
  int64_t end_ns;  // at this rate; kNever when it stands still
  // Of the compute engine alone:
  int64_t since_ns;       // what is left of its op was true then
  uint64_t rate;          // of kFullSpeed
  int64_t block_ns;       // how long one of its blocks takes
  int64_t held_until_ns;  // its resident blocks keep their places against kernels of higher priority until then. kNever: to its end
  int32_t held;           // how much they take, of kWholeDevice
  int32_t places;         // how much its blocks take now
};

// From kCompute on: one entry for each kernel that runs at the same time.
enum EngineId { kCopyIn = 0, kCopyOut = 1, kCompute = 2, kEngines = kCompute + kMaxConcurrent };

enum class Place : uint8_t { nowhere, host, device };  // nowhere: nobody has used it yet

// A piece of managed memory.
struct Chunk {
  uint8_t owner;    // process + 1; 0: the slot is free
  Place place;
  bool was_out;     // the host has memory for it
  uint32_t bytes;   // up to kChunkBytes
  int32_t older;    // of those on the device, by when they came there. Derived, and...
  int32_t newer;    // ...in the other direction
  uint64_t arrived;  // device-wide order of coming to the device
};

struct ManagedState {
  uint64_t arrivals;
  int32_t oldest;  // on the device for longest: the next one to go. Derived
  int32_t newest;  // Derived
  int32_t next;    // where the next allocation looks for room first
  int32_t end;     // no slot from here on was ever in use
  int64_t link_until_ns[2];  // misses and evictions use the link until then, by copy engine
  Chunk chunks[kMaxChunks];
};

struct DeviceState : DeviceParameters {
  int64_t time_ns;  // the model is true up to here
  int64_t quiet_until_ns;  // nothing happens by itself before; 0: to be found out. Derived
  uint64_t arrivals;
  uint64_t completions;
  int32_t holder;  // process (kMpsGroup: MPS clients) that has the compute engine, or had it last
  int64_t slice_start_ns;
  int64_t switch_end_ns;  // the compute engine is being handed over until then
  int64_t line_until_ns;  // the holder's next kernel is on the device and starts then: in slices it keeps the engine for it
  int64_t busy_ns;        // time with a kernel running, up to since_ns if one runs now
  int64_t since_ns;
  RecentBusy recent;
  int64_t checked_ns;  // when somebody last looked for dead processes
  int32_t mps_fault;   // the CUresult of a client's fatal fault: no new client until all have left. 0: none
  int32_t lost;        // the CUresult with which every context fails until the device is back, 0 = it is there
  uint64_t retired;    // processes ever put into history
  uint64_t repairs;    // how often a process died while it held the lock
  // Derived, repair() rebuilds them: which slots of the compute engine run a kernel, how many, of which streams, and
  // which processes are MPS clients.
  uint64_t slots[kMaxConcurrent / 64];
  int32_t running;
  int32_t crowded;  // 1: speeds were shared out, not all may be full
  int32_t refused;  // 1: a kernel waits for room. Derived, but repair() leaves it: a wrong one costs a switch
  uint64_t on_compute[kMaxStreams / 64];
  uint64_t clients;
  Engine engines[kEngines];
  ProcessState processes[kMaxProcesses];
  ProcessState history[kHistory];
  uint64_t busy[kMaxStreams / 64];  // bit set: the stream has ops that are not done. Derived; repair() rebuilds it
  int32_t busy_words;               // the words of it behind these have no stream that was ever open. Derived
  ManagedState managed;
  StreamState streams[kMaxStreams];
};

}  // namespace emu
