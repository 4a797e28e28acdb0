// What a program said about parts of managed memory. Nothing moves here: it is kept, so that it can be asked for.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>

#include "context.hpp"
#include "memory_api.hpp"

namespace emu {

struct Advice {
  bool read_mostly = false;
  CUmemLocation preferred{CU_MEM_LOCATION_TYPE_INVALID, 0};
  CUmemLocation prefetched{CU_MEM_LOCATION_TYPE_INVALID, 0};
  std::set<CUdevice> accessed_by;
};

// By page, as the driver rounds: an entry holds up to the next one.
struct ManagedRange {
  std::mutex mutex;
  std::map<uintptr_t, Advice> from = {{0, {}}};
};

// Throws INVALID_VALUE unless all of it is managed memory.
void require_managed(CUdeviceptr pointer, size_t bytes);
void prefetch_managed(CUdeviceptr pointer, size_t bytes, const CUmemLocation& location, Stream& stream);

}  // namespace emu
