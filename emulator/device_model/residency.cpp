// Device memory: what stays on the device until it is freed, and managed memory, which is there while there is room.
//
// Managed memory comes and goes in chunks of 2 MiB. An op that uses memory which is not on the device waits for it: it
// needs an engine as long as the link to the host takes for the bytes, in line with the copies, and a fixed time for each
// batch of page faults. A prefetch is a copy. Whoever needs room takes it from the chunks that came to the device first,
// whosever they are: NVIDIA's driver goes by the last migration too, not by the last access (open-gpu-kernel-modules
// 595.45.04, uvm_pmm_gpu.c, bug 1765193). Memory that is not managed is never moved, and takes room like any other.
// Where nothing is left to evict, a chunk is used over the link and stays on the host.
//
// Assumed, as no public source gives it: what a batch of faults costs, and how much memory one leads to. An op names its
// memory as a whole and needs all of it when it starts; one that was preempted needs it again when it goes on. The slice in
// which it waits begins when it has it: a process that always waits would never get anywhere otherwise.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "device_model.hpp"

namespace emu {
namespace {

int other(int engine) { return engine == kCopyIn ? kCopyOut : kCopyIn; }

int64_t at_rate(uint64_t bytes, double bytes_per_ns) {
  return bytes == 0 ? 0 : std::llround(static_cast<double>(bytes) / bytes_per_ns);
}

}  // namespace

uint64_t DeviceModel::pinned_bytes() const {
  uint64_t pinned = 0;
  for (const ProcessState& process : s_.processes) pinned += process.pid != 0 ? process.memory_bytes : 0;
  return pinned;
}

uint64_t DeviceModel::memory_used() const {
  uint64_t used = pinned_bytes();
  for (const ProcessState& process : s_.processes) used += process.pid != 0 ? process.resident_bytes : 0;
  return used;
}

bool DeviceModel::reserve(int process, uint64_t bytes, int64_t* ready_ns) {
  if (bytes > s_.memory_bytes || pinned_bytes() > s_.memory_bytes - bytes) return false;
  Moved moved;
  make_room(bytes, moved);
  const int64_t end_ns = transfer(moved);
  if (ready_ns != nullptr) *ready_ns = end_ns;
  s_.processes[process].memory_bytes += bytes;
  return true;
}

void DeviceModel::release(int process, uint64_t bytes) {
  s_.processes[process].memory_bytes -= std::min(bytes, s_.processes[process].memory_bytes);
}

int DeviceModel::map_managed(int process, uint64_t bytes, int32_t& first) {
  ManagedState& managed = s_.managed;
  const uint64_t chunks = (bytes + kChunkBytes - 1) / kChunkBytes;
  if (bytes == 0 || chunks > kMaxChunks) return 0;
  const auto count = static_cast<int32_t>(chunks);
  // Once from where the last allocation ended, once from the beginning.
  for (int32_t begin : {managed.next, 0}) {
    int32_t free = 0;
    for (int32_t i = begin; i < kMaxChunks && free < count; ++i) {
      const bool taken = managed.chunks[i].owner != 0;
      free = taken ? 0 : free + 1;
      if (taken) begin = i + 1;
    }
    if (free < count) continue;
    first = begin;
    managed.end = std::max(managed.end, first + count);
    managed.next = first + count;
    for (int32_t i = 0; i < count; ++i) {
      Chunk& chunk = managed.chunks[first + i];
      const uint64_t rest = bytes - static_cast<uint64_t>(i) * kChunkBytes;
      chunk.bytes = static_cast<uint32_t>(std::min(rest, kChunkBytes));
      chunk.place = Place::nowhere;
      chunk.was_out = false;
      commit_point();
      chunk.owner = static_cast<uint8_t>(process + 1);
    }
    s_.processes[process].managed_bytes += bytes;
    return count;
  }
  return 0;
}

void DeviceModel::unmap_managed(int process, ChunkRange range) {
  for (int32_t i = range.first; i < range.first + range.count; ++i) {
    Chunk& chunk = s_.managed.chunks[i];
    if (chunk.owner != process + 1) continue;
    if (chunk.place == Place::device) place(i, Place::nowhere);
    s_.processes[process].managed_bytes -= chunk.bytes;
    commit_point();
    chunk.owner = 0;
  }
}

void DeviceModel::forget_managed(int process) {
  if (s_.processes[process].managed_bytes > 0) unmap_managed(process, {0, s_.managed.end});
}

void DeviceModel::link_in_list(int32_t index) {
  ManagedState& managed = s_.managed;
  Chunk& chunk = managed.chunks[index];
  chunk.older = managed.newest;
  chunk.newer = kNone;
  (managed.newest == kNone ? managed.oldest : managed.chunks[managed.newest].newer) = index;
  managed.newest = index;
}

void DeviceModel::unlink(int32_t index) {
  ManagedState& managed = s_.managed;
  const Chunk& chunk = managed.chunks[index];
  (chunk.older == kNone ? managed.oldest : managed.chunks[chunk.older].newer) = chunk.newer;
  (chunk.newer == kNone ? managed.newest : managed.chunks[chunk.newer].older) = chunk.older;
}

// To the device or away from it; repair() rebuilds the rest of it from the chunk's place.
void DeviceModel::place(int32_t index, Place where) {
  Chunk& chunk = s_.managed.chunks[index];
  ProcessState& owner = s_.processes[chunk.owner - 1];
  if (where == Place::device) chunk.arrived = s_.managed.arrivals++;
  commit_point();
  chunk.place = where;
  commit_point();
  if (where == Place::device) {
    link_in_list(index);
    owner.resident_bytes += chunk.bytes;
  } else {
    unlink(index);
    owner.resident_bytes -= chunk.bytes;
  }
}

void DeviceModel::bring_out(int32_t index, Moved& moved) {
  Chunk& chunk = s_.managed.chunks[index];
  if (chunk.place != Place::device) return;
  moved.out_bytes += chunk.bytes;
  moved.first_out_bytes += chunk.was_out ? 0 : chunk.bytes;
  chunk.was_out = true;
  s_.processes[chunk.owner - 1].moved_out_bytes += chunk.bytes;
  place(index, Place::host);
}

void DeviceModel::evict(int32_t index, Moved& moved) {
  ++s_.processes[s_.managed.chunks[index].owner - 1].evicted_chunks;
  bring_out(index, moved);
}

// False: there are not so many bytes that can be had.
bool DeviceModel::make_room(uint64_t bytes, Moved& moved) {
  uint64_t used = memory_used();
  while (used + bytes > s_.memory_bytes) {
    const int32_t victim = s_.managed.oldest;
    if (victim == kNone) return false;
    used -= s_.managed.chunks[victim].bytes;
    evict(victim, moved);
  }
  return true;
}

void DeviceModel::bring_in(int32_t index, Moved& moved) {
  const Chunk& chunk = s_.managed.chunks[index];
  if (chunk.place == Place::device) return;
  moved.missed_bytes += chunk.bytes;
  if (chunk.place == Place::host) {
    moved.in_bytes += chunk.bytes;
    s_.processes[chunk.owner - 1].moved_in_bytes += chunk.bytes;
  }
  if (make_room(chunk.bytes, moved)) place(index, Place::device);
}

// When the engine's direction of the link is free.
int64_t DeviceModel::link_end(int engine) const {
  const int64_t copy_ns = s_.engines[engine].stream == kNone ? 0 : s_.engines[engine].end_ns;
  return std::max(copy_ns, s_.managed.link_until_ns[engine]);
}

// When a transfer that takes so long alone is over. One in the other direction slows it, and is slowed.
int64_t DeviceModel::use_link(int engine, int64_t begin_ns, int64_t ns) {
  const int64_t both_ns = std::min(begin_ns + ns, link_end(other(engine))) - begin_ns;
  if (both_ns <= 0 || s_.both_ways == 1) return begin_ns + ns;
  const int64_t more_ns = std::llround(static_cast<double>(both_ns) * (1 / s_.both_ways - 1));
  Engine& beside = s_.engines[other(engine)];
  if (beside.stream != kNone) beside.end_ns += more_ns;
  if (s_.managed.link_until_ns[other(engine)] > begin_ns) s_.managed.link_until_ns[other(engine)] += more_ns;
  return begin_ns + ns + more_ns;
}

// When the bytes are where they shall be.
int64_t DeviceModel::transfer(const Moved& moved) {
  int64_t end_ns = s_.time_ns;
  const std::array<uint64_t, 2> bytes = {moved.in_bytes, moved.out_bytes};
  for (const int engine : {kCopyOut, kCopyIn}) {  // room first
    if (bytes[static_cast<size_t>(engine)] == 0) continue;
    const int64_t ns = engine == kCopyIn ? at_rate(moved.in_bytes, s_.link_in)
                                         : at_rate(moved.out_bytes - moved.first_out_bytes, s_.link_out) +
                                               at_rate(moved.first_out_bytes, s_.link_first_out);
    s_.managed.link_until_ns[engine] = use_link(engine, std::max(s_.time_ns, link_end(engine)), ns);
  }
  for (const int engine : {kCopyOut, kCopyIn}) {
    if (bytes[static_cast<size_t>(engine)] > 0) end_ns = std::max(end_ns, s_.managed.link_until_ns[engine]);
  }
  disturb();
  return end_ns;
}

bool DeviceModel::ranges_fit(const StreamState& stream) const {
  return stream.done == stream.tail || stream.ranges_tail - stream.ranges_done <= kRingRanges - kRangesOfOp;
}

void DeviceModel::name_ranges(StreamState& stream, Op& op, std::span<const ChunkRange> ranges) {
  if (stream.done == stream.tail) stream.ranges_done = stream.ranges_tail;
  op.ranges = static_cast<uint8_t>(std::min<size_t>(ranges.size(), kRangesOfOp));
  for (uint8_t i = 0; i < op.ranges; ++i) stream.ranges[(stream.ranges_tail + i) % kRingRanges] = ranges[i];
  stream.ranges_tail += op.ranges;
}

// Memory that was given back, and has a new owner perhaps, is left alone.
void DeviceModel::move(int index, uint64_t seq, Moved& moved) {
  const StreamState& stream = s_.streams[index];
  const Move kind = op(index, seq).move;
  const ProcessState& owner = s_.processes[stream.process];
  if (kind == Move::use && owner.resident_bytes == owner.managed_bytes) return;
  for (uint64_t i = 0; i < op(index, seq).ranges; ++i) {
    const ChunkRange range = stream.ranges[(stream.ranges_done + i) % kRingRanges];
    for (int32_t chunk = range.first; chunk < range.first + range.count; ++chunk) {
      if (s_.managed.chunks[chunk].owner != stream.process + 1) continue;
      if (kind == Move::to_host) {
        bring_out(chunk, moved);
      } else {
        bring_in(chunk, moved);
      }
    }
  }
}

// How long the stream's first op has to wait on its engine for the memory that it names.
int64_t DeviceModel::wait_for_memory(int id, int index) {
  const uint64_t seq = s_.streams[index].done;
  Moved moved;
  move(index, seq, moved);
  int64_t ns = transfer(moved) - s_.time_ns;
  if (op(index, seq).move != Move::use || moved.missed_bytes == 0) return ns;
  const auto batches = (moved.missed_bytes + s_.fault_batch_bytes - 1) / s_.fault_batch_bytes;
  ns += static_cast<int64_t>(batches) * s_.fault_batch_ns;
  ProcessState& process = s_.processes[s_.streams[index].process];
  process.missed_chunks += (moved.missed_bytes + kChunkBytes - 1) / kChunkBytes;
  process.missing_ns += ns;
  if (id >= kCompute) s_.slice_start_ns += ns;
  return ns;
}

void DeviceModel::repair_managed() {
  ManagedState& managed = s_.managed;
  for (ProcessState& process : s_.processes) process.managed_bytes = process.resident_bytes = 0;
  std::vector<int32_t> resident;
  for (int32_t i = 0; i < managed.end; ++i) {
    Chunk& chunk = managed.chunks[i];
    if (chunk.owner == 0) continue;
    ProcessState& owner = s_.processes[chunk.owner - 1];
    if (owner.pid == 0) {
      chunk.owner = 0;
      continue;
    }
    owner.managed_bytes += chunk.bytes;
    if (chunk.place != Place::device) continue;
    owner.resident_bytes += chunk.bytes;
    resident.push_back(i);
  }
  std::sort(resident.begin(), resident.end(),
            [&](int32_t a, int32_t b) { return managed.chunks[a].arrived < managed.chunks[b].arrived; });
  managed.oldest = managed.newest = kNone;
  for (const int32_t index : resident) link_in_list(index);
}

}  // namespace emu
