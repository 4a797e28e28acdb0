// Device memory without an address (cuMemCreate): it is mapped, shared and released by its handle.
#pragma once

#include "libcuda/context/context.hpp"
#include "libcuda/memory/memory_api.hpp"
#include "libcuda/driver/shared_bytes.hpp"

namespace emu {

inline constexpr uint64_t kGranularity = uint64_t{2} << 20;  // of virtual memory, minimum and recommended

struct PhysicalMemory : Object {
  static constexpr ObjectKind kKind = ObjectKind::physical;
  PhysicalMemory(Device& d, SharedBytes b, const CUmemAllocationProp& p, uint64_t r)
      : Object(kKind), device(d), bytes(std::move(b)), properties(p), reserved(r) {}
  // Gives the device's capacity back. What another process made counts there, as long as that one holds it.
  ~PhysicalMemory();
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  Device& device;
  const SharedBytes bytes;
  const CUmemAllocationProp properties;
  const uint64_t reserved;
  int handles = 1;   // guarded by hold() and drop()
  int mappings = 0;  // as well
};

PhysicalMemory& physical_memory(CUmemGenericAllocationHandle handle);
CUmemGenericAllocationHandle handle_of(PhysicalMemory& memory);
// One more, one less user of either kind (a pointer to the member); the last one frees the memory.
void hold(PhysicalMemory& memory, int PhysicalMemory::* users);
void drop(PhysicalMemory& memory, int PhysicalMemory::* users);
// What a call about so much memory takes by itself: the calling thread is away as long. `piece_ns`: for each 2 MiB.
void take_time(int64_t piece_ns, uint64_t bytes);
// A location that is one of this process's devices; throws INVALID_DEVICE or, for other kinds, NOT_SUPPORTED.
Device& device_at(const CUmemLocation& location);

}  // namespace emu
