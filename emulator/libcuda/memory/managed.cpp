#include "libcuda/memory/managed.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "libcuda/memory/memory.hpp"
#include "libcuda/memory/virtual_memory.hpp"

using namespace emu;

namespace {

// Numbers of CUmem_advise: each SET is followed by its UNSET.
enum Advise { kReadMostly = 1, kNotReadMostly, kPreferred, kNotPreferred, kAccessedBy, kNotAccessedBy };

// Numbers of CUmem_range_attribute.
enum RangeAttribute {
  kIsReadMostly = 1,
  kPreferredLocation,
  kAccessors,
  kLastPrefetch,
  kPreferredType,
  kPreferredId,
  kLastPrefetchType,
  kLastPrefetchId,
};

CUmemLocation location_of(CUdevice device) {
  return {device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE, device};
}

// The older calls know devices and the host only.
CUdevice device_of(const CUmemLocation& location) {
  if (location.type == CU_MEM_LOCATION_TYPE_INVALID) return CU_DEVICE_INVALID;
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
}

void require_location(const CUmemLocation& location) {
  require(location.type > CU_MEM_LOCATION_TYPE_INVALID && location.type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT,
          CUDA_ERROR_INVALID_VALUE);
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) driver().device(location.id);
}

bool same(const CUmemLocation& a, const CUmemLocation& b) { return a.type == b.type && device_of(a) == device_of(b); }

// Shows every piece of [pointer, pointer + bytes) to `visit`; throws INVALID_VALUE outside of managed memory.
void for_pieces(CUdeviceptr pointer, size_t bytes, const std::function<void(Advice&)>& visit) {
  const auto memory = driver().memory().find(pointer);
  require(memory && memory->managed != nullptr && bytes > 0 && bytes <= memory->base + memory->bytes - pointer,
          CUDA_ERROR_INVALID_VALUE);
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = pointer / page * page;
  const uintptr_t end = (pointer + bytes + page - 1) / page * page;
  const std::lock_guard lock(memory->managed->mutex);
  auto& pieces = memory->managed->from;
  for (const uintptr_t cut : {begin, end}) {
    const auto after = pieces.upper_bound(cut);
    if (std::prev(after)->first != cut) pieces.emplace_hint(after, cut, std::prev(after)->second);
  }
  for (auto piece = pieces.find(begin); piece->first != end; ++piece) visit(piece->second);
}

void advise(CUdeviceptr pointer, size_t bytes, int advice, const CUmemLocation& location) {
  current();
  require(advice >= kReadMostly && advice <= kNotAccessedBy, CUDA_ERROR_INVALID_VALUE);
  if (advice == kPreferred || advice == kAccessedBy || advice == kNotAccessedBy) require_location(location);
  for_pieces(pointer, bytes, [&](Advice& piece) {
    if (advice <= kNotReadMostly) piece.read_mostly = advice == kReadMostly;
    if (advice == kPreferred) piece.preferred = location;
    if (advice == kNotPreferred) piece.preferred = {CU_MEM_LOCATION_TYPE_INVALID, 0};
    if (advice == kAccessedBy) piece.accessed_by.insert(device_of(location));
    if (advice == kNotAccessedBy) piece.accessed_by.erase(device_of(location));
  });
}

// What all pieces agree on: no location otherwise.
struct Agreed {
  bool any = false;
  Advice advice;

  void add(const Advice& piece) {
    if (!any) {
      advice = piece;
      any = true;
      return;
    }
    const CUmemLocation none{CU_MEM_LOCATION_TYPE_INVALID, 0};
    advice.read_mostly = advice.read_mostly && piece.read_mostly;
    if (!same(advice.preferred, piece.preferred)) advice.preferred = none;
    if (!same(advice.prefetched, piece.prefetched)) advice.prefetched = none;
    std::erase_if(advice.accessed_by, [&](CUdevice device) { return !piece.accessed_by.contains(device); });
  }
};

int answer(int attribute, const Advice& advice) {
  switch (attribute) {
    case kIsReadMostly:
      return advice.read_mostly ? 1 : 0;
    case kPreferredLocation:
      return device_of(advice.preferred);
    case kLastPrefetch:
      return device_of(advice.prefetched);
    case kPreferredType:
      return advice.preferred.type;
    case kPreferredId:
      return advice.preferred.id;
    case kLastPrefetchType:
      return advice.prefetched.type;
    case kLastPrefetchId:
      return advice.prefetched.id;
    default:
      throw Failure{CUDA_ERROR_INVALID_VALUE};
  }
}

void answer(void* out, size_t bytes, int attribute, const Advice& advice) {
  require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  auto* words = static_cast<int*>(out);
  if (attribute != kAccessors) {
    require(bytes == sizeof(int), CUDA_ERROR_INVALID_VALUE);
    *words = answer(attribute, advice);
    return;
  }
  require(bytes > 0 && bytes % sizeof(int) == 0, CUDA_ERROR_INVALID_VALUE);
  auto device = advice.accessed_by.begin();
  for (size_t i = 0; i < bytes / sizeof(int); ++i) {
    words[i] = device == advice.accessed_by.end() ? CU_DEVICE_INVALID : *device++;
  }
}

Advice advice_about(CUdeviceptr pointer, size_t bytes) {
  current();
  Agreed agreed;
  for_pieces(pointer, bytes, [&](const Advice& piece) { agreed.add(piece); });
  return agreed.advice;
}

}  // namespace

namespace emu {

void require_managed(CUdeviceptr pointer, size_t bytes) {
  for_pieces(pointer, bytes, [](Advice&) {});
}

// Where the stream has no work NVIDIA's driver makes the move within the call: on an H200 a call away from the device took
// all of the move, and launches of other threads as long; one to it took a part, and no launch. Behind other work neither
// took any time (docs/memory.md, "On an H200").
// To another device than the stream's it takes no time: the model knows the link to the host alone.
void prefetch_managed(CUdeviceptr pointer, size_t bytes, const CUmemLocation& location, Stream& stream) {
  require_location(location);
  for_pieces(pointer, bytes, [&](Advice& piece) { piece.prefetched = location; });
  const bool to_host = location.type != CU_MEM_LOCATION_TYPE_DEVICE;
  if (!to_host && &driver().device(location.id) != &stream.context->device) {
    submit(stream, Command{});
    return;
  }
  const Config& config = driver().config();
  const std::vector<Extent> memory{{pointer, bytes}};
  int64_t chunks = 0;  // that the call itself takes time for
  if (!to_host && config.in_call_ns > 0) {
    Session& session = stream.context->session();
    if (session.idle(*stream.queue)) chunks = session.chunks_elsewhere(managed_ranges(session, memory));
  }
  submit(stream, Command{.kind = to_host ? OpKind::copy_out : OpKind::copy_in,
                         .bytes = bytes,
                         .move = to_host ? Move::to_host : Move::to_device,
                         .memory = memory,
                         .blocks = to_host && config.out_blocks});
  take_time(config.in_call_ns, static_cast<uint64_t>(chunks) * kChunkBytes);
}

std::vector<ChunkRange> managed_ranges(const Session& session, const std::vector<Extent>& memory) {
  std::vector<ChunkRange> found;
  if (memory.empty() || !session.has_managed()) return found;
  for (const Extent& extent : memory) {
    const auto allocation = driver().memory().find(extent.at);
    if (!allocation || allocation->managed == nullptr || &allocation->managed->session != &session) continue;
    const ChunkRange all = allocation->managed->chunks;
    const uint64_t begin = extent.bytes == 0 ? 0 : extent.at - allocation->base;
    const uint64_t end = extent.bytes == 0 ? allocation->bytes : std::min(begin + extent.bytes, allocation->bytes);
    const auto first = static_cast<int32_t>(begin / kChunkBytes);
    const auto last = static_cast<int32_t>((end - 1) / kChunkBytes);
    found.push_back({all.first + first, last - first + 1});
  }
  std::sort(found.begin(), found.end(), [](ChunkRange a, ChunkRange b) { return a.first < b.first; });
  std::vector<ChunkRange> merged;
  for (const ChunkRange& range : found) {
    if (merged.empty() || range.first > merged.back().first + merged.back().count) {
      merged.push_back(range);
    } else {
      ChunkRange& last = merged.back();
      last.count = std::max(last.count, range.first + range.count - last.first);
    }
  }
  return merged;
}

}  // namespace emu

CU_EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream stream) {
  return api([&] { prefetch_managed(pointer, bytes, location_of(device), resolve(stream)); });
}

CU_EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t bytes, CUmemLocation location, unsigned flags,
                                         CUstream stream) {
  return api([&] {
    require(flags == 0, CUDA_ERROR_INVALID_VALUE);
    prefetch_managed(pointer, bytes, location, resolve(stream));
  });
}

CU_EXPORT CUresult cuMemAdvise(CUdeviceptr pointer, size_t bytes, int advice, CUdevice device) {
  return api([&] { advise(pointer, bytes, advice, location_of(device)); });
}

CU_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr pointer, size_t bytes, int advice, CUmemLocation location) {
  return api([&] { advise(pointer, bytes, advice, location); });
}

CU_EXPORT CUresult cuMemRangeGetAttribute(void* out, size_t out_bytes, int attribute, CUdeviceptr pointer,
                                          size_t bytes) {
  return api([&] { answer(out, out_bytes, attribute, advice_about(pointer, bytes)); });
}

CU_EXPORT CUresult cuMemRangeGetAttributes(void** out, size_t* out_bytes, int* attributes, size_t count,
                                           CUdeviceptr pointer, size_t bytes) {
  return api([&] {
    require(out != nullptr && out_bytes != nullptr && attributes != nullptr && count > 0, CUDA_ERROR_INVALID_VALUE);
    const Advice advice = advice_about(pointer, bytes);
    for (size_t i = 0; i < count; ++i) answer(out[i], out_bytes[i], attributes[i], advice);
  });
}
