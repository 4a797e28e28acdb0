// Every address range that the driver API gave out or was told about, by address.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace emu {

struct Context;
struct Pool;

// global: a variable of a module, which owns the bytes.
enum class MemoryKind { device, managed, host, registered, global };

struct Allocation {
  uintptr_t base = 0;
  uint64_t bytes = 0;     // what the program asked for
  uint64_t reserved = 0;  // what it takes of the device's capacity; 0 for host memory
  MemoryKind kind = MemoryKind::device;
  Context* context = nullptr;
  Pool* pool = nullptr;  // set for stream-ordered allocations
  uint64_t id = 0;
};

class MemoryTable {
 public:
  void insert(Allocation allocation);
  // The range that holds this address.
  std::optional<Allocation> find(uintptr_t address) const;
  // The range that begins at this address, taken out of the table.
  std::optional<Allocation> take(uintptr_t base);
  // Any range of a context, taken out; for its destruction.
  std::optional<Allocation> take_any_of(const Context* context);
  bool overlaps(uintptr_t base, uint64_t bytes) const;

 private:
  mutable std::mutex mutex_;
  std::map<uintptr_t, Allocation> ranges_;
  uint64_t next_id_ = 1;
};

}  // namespace emu
