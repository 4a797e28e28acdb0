#include "trace.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <functional>

namespace emu {
namespace {

constexpr uint32_t kLongestProbe = 64;

// Orders the stores before it against the one that makes them true, for a process killed between them.
void commit_point() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace

void Trace::turn_on(uint64_t count) {
  on = 0;
  commit_point();
  capacity = std::bit_ceil(std::clamp<uint64_t>(count, 1, kMaxTraceRecords));
  first = written;
  nameless = 0;
  commit_point();
  on = 1;
}

uint64_t Trace::add(const TraceRecord& record, std::string_view name) {
  const uint64_t number = written + 1;
  TraceRecord& place = records[written & (capacity - 1)];
  place.number = 0;
  commit_point();
  place = record;
  place.number = 0;
  place.name = name.empty() ? 0 : intern(name);
  if (!name.empty() && place.name == 0) ++nameless;
  written = number;
  commit_point();
  place.number = number;
  return number;
}

void Trace::ended(uint64_t number, int64_t now_ns, Outcome outcome) {
  TraceRecord* record = find(number);
  if (record == nullptr) return;
  // What takes no time starts when it ends; what was dropped before its turn never started.
  if (record->start_ns == 0 && outcome != Outcome::dropped) record->start_ns = now_ns;
  record->end_ns = now_ns;
  record->outcome = outcome;
}

// The name's offset + 1, 0 when there is no room for it. Names are never removed.
uint32_t Trace::intern(std::string_view name) {
  const size_t hash = std::hash<std::string_view>()(name);
  for (uint32_t probe = 0; probe < kLongestProbe; ++probe) {
    uint32_t& slot = slots[(hash + probe) % kTraceNameSlots];
    if (slot != 0) {
      const char* known = names + slot - 1;
      if (strncmp(known, name.data(), name.size()) == 0 && known[name.size()] == '\0') return slot;
      continue;
    }
    if (name.size() >= kTraceNameBytes - name_bytes) return 0;
    const uint32_t offset = name_bytes;
    memcpy(names + offset, name.data(), name.size());
    names[offset + name.size()] = '\0';
    name_bytes = offset + static_cast<uint32_t>(name.size()) + 1;
    commit_point();
    slot = offset + 1;
    return slot;
  }
  return 0;
}

}  // namespace emu
