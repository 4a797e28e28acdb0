// Managed memory: where its chunks are in the shared model (device_model/residency.cpp), and what a program said about parts of
// it, which is kept so that it can be asked for. Its bytes never move: only what a move takes is played.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>

#include "libcuda/context/context.hpp"
#include "libcuda/memory/memory_api.hpp"

namespace emu {

struct Advice {
  bool read_mostly = false;
  CUmemLocation preferred{CU_MEM_LOCATION_TYPE_INVALID, 0};
  CUmemLocation prefetched{CU_MEM_LOCATION_TYPE_INVALID, 0};
  std::set<CUdevice> accessed_by;
};

// By page, as the driver rounds: an entry holds up to the next one.
struct ManagedRange {
  Session& session;
  ChunkRange chunks;
  std::mutex mutex = {};
  std::map<uintptr_t, Advice> from = {{0, {}}};
};

// The chunks of this device that the extents name, in ascending order and without gaps that are none.
std::vector<ChunkRange> managed_ranges(const Session& session, const std::vector<Extent>& memory);
// Throws INVALID_VALUE unless all of it is managed memory.
void require_managed(CUdeviceptr pointer, size_t bytes);
void prefetch_managed(CUdeviceptr pointer, size_t bytes, const CUmemLocation& location, Stream& stream);

}  // namespace emu
