// What every op on a device did, and when: a bounded ring of records as plain data beside the device's state. Off by
// default. The ground truth that others' measurements are compared with; `emuctl trace` writes it out.
//
// A record is made when its op is enqueued and completed as the op proceeds. All under the owner's lock; a writer that
// is killed in between leaves a record without number, which readers count as lost.
#pragma once

#include <cstdint>
#include <string_view>

namespace emu {

inline constexpr uint64_t kMaxTraceRecords = uint64_t{1} << 20;
inline constexpr uint64_t kTraceRecords = uint64_t{1} << 16;  // unless asked otherwise
inline constexpr uint32_t kTraceNameSlots = 1 << 14;
inline constexpr uint32_t kTraceNameBytes = 1 << 20;

enum class Outcome : uint8_t {
  pending,  // queued, or running when start_ns is set
  done,
  failed,   // ended with `error`, which killed its context
  dropped,  // never ended: its context or process died before
};

struct TraceRecord {
  uint64_t number;  // counted from 1; 0: not (completely) written
  // Model time; 0: not yet. The start is the first one: others' slices may lie between start and end.
  int64_t enqueue_ns;
  int64_t start_ns;
  int64_t end_ns;
  int64_t work_ns;   // device time that it needed
  uint64_t seq;      // its place in its stream, all kinds of ops counted
  uint64_t context;  // as the process's cuCtxGetId and cuStreamGetId say
  uint64_t stream;
  uint64_t bytes;  // of a copy or fill
  int32_t pid;
  uint32_t name;  // Trace::name_of; 0: none
  uint32_t grid[3];
  uint32_t block[3];
  float demand;  // share of the device that it took at full speed; of what is no kernel or fill: 1
  int16_t error;
  uint8_t kind;  // OpKind
  Outcome outcome;
};

struct Trace {
  int32_t on;
  uint64_t capacity;  // records in use, a power of two
  uint64_t first;     // records made before it was turned on, last time
  uint64_t written;   // records ever made
  uint64_t nameless;  // records whose name found no room
  uint32_t name_bytes;
  uint32_t slots[kTraceNameSlots];  // hash table of names: offset in `names` + 1
  char names[kTraceNameBytes];      // each with its final zero
  TraceRecord records[kMaxTraceRecords];

  // Begins anew. The ring has room for at least so many records, 1 to kMaxTraceRecords.
  void turn_on(uint64_t count);
  void turn_off() { on = 0; }
  // Puts the record into the ring, its number and name given here; returns the number.
  uint64_t add(const TraceRecord& record, std::string_view name);
  // The record with this number, null when others have taken its place.
  TraceRecord* find(uint64_t number) {
    if (number == 0) return nullptr;
    TraceRecord& record = records[(number - 1) & (capacity - 1)];
    return record.number == number ? &record : nullptr;
  }
  void started(uint64_t number, int64_t now_ns) {
    TraceRecord* record = find(number);
    if (record != nullptr && record->start_ns == 0) record->start_ns = now_ns;
  }
  void ended(uint64_t number, int64_t now_ns, Outcome outcome);
  const char* name_of(const TraceRecord& record) const { return record.name == 0 ? nullptr : names + record.name - 1; }

 private:
  uint32_t intern(std::string_view name);
};

}  // namespace emu
