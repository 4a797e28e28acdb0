// Every address range that the driver API gave out or was told about, by address.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

namespace emu {

struct Context;
struct Device;
struct Pool;
struct ManagedRange;

// global: a variable of a module, which owns the bytes. mapped: by cuMemMap. imported: by cuIpcOpenMemHandle. graph: of an
// allocation node, GraphMemory owns the bytes.
enum class MemoryKind { device, managed, host, registered, global, mapped, imported, graph };

struct Allocation {
  uintptr_t base = 0;
  uint64_t bytes = 0;     // what the program asked for
  uint64_t reserved = 0;  // what it takes of the device's capacity; 0 for host memory
  MemoryKind kind = MemoryKind::device;
  Context* context = nullptr;  // that it goes away with; null: with none
  Pool* pool = nullptr;        // set for stream-ordered allocations
  uint64_t id = 0;
  Device* device = nullptr;     // of memory that was allocated, with a context or without
  unsigned flags = 0;           // of cuMemHostAlloc, cuMemHostRegister
  int fd = -1;                  // of the shared bytes behind it, once another process may ask for them
  uint64_t shared_id = 0;       // imported memory: of the shared bytes
  int opens = 0;                // imported memory: how often it was opened and not closed
  bool sync_memops = false;     // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, which every synchronous copy here obeys anyway
  ManagedRange* managed = nullptr;  // managed memory: what was advised about it
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
  bool has_managed() const { return managed_.load(std::memory_order_relaxed) > 0; }
  bool overlaps(uintptr_t base, uint64_t bytes) const;
  // The first range that fits.
  std::optional<Allocation> find_if(const std::function<bool(const Allocation&)>& fits) const;
  // Changes the range that begins at this address; false when there is none.
  bool change(uintptr_t base, const std::function<void(Allocation&)>& change);

 private:
  mutable std::mutex mutex_;
  std::map<uintptr_t, Allocation> ranges_;
  std::atomic<int64_t> managed_{0};  // ranges of managed memory
  uint64_t next_id_ = 1;
};

}  // namespace emu
