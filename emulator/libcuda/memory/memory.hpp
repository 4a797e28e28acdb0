// Device and host memory: both are this process's own pages, so that programs can read back what was copied.
#pragma once

#include <map>

#include "libcuda/context/context.hpp"

namespace emu {

struct Pool : Object {
  static constexpr ObjectKind kKind = ObjectKind::pool;
  explicit Pool(Device& d) : Object(kKind), device(d) {}
  // Room for an allocation: out of what the pool holds, and then of the device's. False: there is not enough.
  bool take(uint64_t bytes);
  void give_back(uint64_t bytes);
  // Gives the device back what is not used, down to `keep` bytes.
  void trim(uint64_t keep);

  Device& device;
  std::mutex mutex;  // guards the rest; never held while the session's is taken, under which memory is given back
  bool managed = false;  // its memory comes and goes: it takes no room of the device by itself, and `reserved` is of its own
  uint64_t release_threshold = 0;
  uint64_t most_bytes = UINT64_MAX;
  uint64_t reserved = 0;  // of the device's capacity; at least `used`
  uint64_t reserved_high = 0;
  uint64_t used = 0;
  uint64_t used_high = 0;
  int reuse[3] = {1, 1, 1};                  // the three reuse policies: kept, without effect
  std::map<const Device*, unsigned> access;  // of other devices
  bool destroyed = false;                    // lives on for the allocations that are left
};

Pool& default_pool(Device& device);

// Pools let go of what they hold beyond their threshold (CUDA manual: when a stream, event or context is synchronised).
void settle_pools(Device& device);
// Whatever is not used, for somebody who needs it.
void empty_pools(Device& device);

uint64_t page_bytes(uint64_t bytes);  // rounded up to whole pages
// Readable and writable pages of this process with a guard page behind them; throws OUT_OF_MEMORY.
uintptr_t map_pages(uint64_t bytes);
void unmap_pages(uintptr_t base, uint64_t bytes);
// Releases an allocation that is already out of the table.
void free_pages(const Allocation& allocation);

// Frees what the context still owns; its work is done.
void release_context_memory(Context* context);
// True when an asynchronous copy of this host address need not be waited for: memory from cuMemHostAlloc or registered.
bool pinned(const void* address, uint64_t bytes);

}  // namespace emu
