#include "libcuda/memory/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "libcuda/graph/capture.hpp"
#include "libcuda/graph/graph_memory.hpp"
#include "libcuda/memory/managed.hpp"

namespace emu {
namespace {

constexpr uint64_t kAlignment = 512;  // of device allocations
constexpr unsigned kHostMapped = 2;     // with unified addressing all host memory is (CUDA manual, cuMemHostAlloc)
constexpr unsigned kHostFlags = 7;      // portable, mapped, write-combined
constexpr unsigned kRegisterFlags = 15; // portable, mapped, I/O memory, read-only
constexpr uint64_t kGuard = 4096;       // a page that catches a host-side overrun

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

uint64_t mapping(uint64_t bytes) { return page_bytes(bytes) + kGuard; }

}  // namespace

uint64_t page_bytes(uint64_t bytes) { return round_up(bytes, static_cast<uint64_t>(sysconf(_SC_PAGESIZE))); }

uintptr_t map_pages(uint64_t bytes) {
  void* memory = mmap(nullptr, mapping(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(memory != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  if (mprotect(memory, mapping(bytes) - kGuard, PROT_READ | PROT_WRITE) != 0) {
    munmap(memory, mapping(bytes));
    throw Failure{CUDA_ERROR_OUT_OF_MEMORY};
  }
  return reinterpret_cast<uintptr_t>(memory);
}

void unmap_pages(uintptr_t base, uint64_t bytes) { munmap(reinterpret_cast<void*>(base), mapping(bytes)); }

void free_pages(const Allocation& allocation) {
  if (allocation.kind == MemoryKind::registered || allocation.kind == MemoryKind::global ||
      allocation.kind == MemoryKind::graph)
    return;
  unmap_pages(allocation.base, allocation.bytes);
  if (allocation.fd >= 0) close(allocation.fd);
  if (allocation.managed != nullptr) allocation.managed->session.unmap_managed(allocation.managed->chunks);
  delete allocation.managed;
  if (allocation.pool != nullptr) {
    allocation.pool->give_back(allocation.reserved);
  } else if (allocation.reserved > 0) {
    allocation.context->session().release(allocation.reserved);
  }
}

namespace {

bool reserve(Context& context, uint64_t bytes) {
  if (context.session().reserve(bytes)) return true;
  empty_pools(context.device);
  return context.session().reserve(bytes);
}

void make_managed(Allocation& made, Session& session) {
  const ChunkRange chunks = session.map_managed(made.bytes);
  if (chunks.count == 0) unmap_pages(made.base, made.bytes);
  require(chunks.count > 0, CUDA_ERROR_OUT_OF_MEMORY);
  made.managed = new ManagedRange{.session = session, .chunks = chunks};
}

uintptr_t allocate(Context& context, uint64_t bytes, MemoryKind kind, Pool* pool = nullptr, unsigned flags = 0) {
  if (pool == nullptr) forbid_unsafe_call();
  require(bytes > 0, CUDA_ERROR_INVALID_VALUE);
  const bool on_device = kind == MemoryKind::device;
  require(bytes <= uint64_t{1} << 46, CUDA_ERROR_OUT_OF_MEMORY);
  const uint64_t reserved = on_device || pool != nullptr ? round_up(bytes, kAlignment) : 0;
  const bool room = pool != nullptr ? pool->take(reserved) : !on_device || reserve(context, reserved);
  require(room, CUDA_ERROR_OUT_OF_MEMORY);
  Allocation made{0, bytes, reserved, kind, pool == nullptr ? &context : nullptr, pool, 0};
  made.device = &context.device;
  try {
    made.base = map_pages(bytes);
    made.flags = flags;
    if (kind == MemoryKind::managed) make_managed(made, context.session());
  } catch (const Failure&) {
    if (pool != nullptr) {
      pool->give_back(reserved);
    } else {
      context.session().release(reserved);
    }
    throw;
  }
  driver().memory().insert(made);
  return made.base;
}

// A synchronous free waits for the device's work, as the real one does: nothing queued may still use the memory. Not for
// memory of a pool, which belongs to no context (CUDA manual, cuMemFree and cuCtxDestroy).
void free_now(uintptr_t base, std::initializer_list<MemoryKind> kinds) {
  forbid_unsafe_call();
  const auto found = driver().memory().find(base);
  const bool matches =
      found && found->base == base && std::find(kinds.begin(), kinds.end(), found->kind) != kinds.end();
  require(matches, CUDA_ERROR_INVALID_VALUE);
  if (found->context != nullptr) found->context->synchronize();
  if (const auto taken = driver().memory().take(base)) free_pages(*taken);
}

CUdeviceptr allocate_async(uint64_t bytes, Pool& pool, Stream& stream) {
  forbid_implicit_work(stream);
  if (stream.capture != nullptr) return record_allocation(stream, bytes);
  if (bytes == 0) return 0;
  return allocate(*stream.context, bytes, pool.managed ? MemoryKind::managed : MemoryKind::device, &pool);
}

}  // namespace

void release_context_memory(Context* context) {
  while (const auto allocation = driver().memory().take_any_of(context)) free_pages(*allocation);
  release_graph_memory(*context);
  settle_pools(context->device);
}

bool pinned(const void* address, uint64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const auto found = driver().memory().find(begin);
  return found && begin + bytes <= found->base + found->bytes;
}

}  // namespace emu

using namespace emu;

CU_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = allocate(current(), bytes, MemoryKind::device);
  });
}

CU_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned) {
  return api([&] {
    require(out != nullptr && pitch != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pitch = round_up(width, kAlignment);
    *out = allocate(current(), *pitch * height, MemoryKind::device);
  });
}

CU_EXPORT CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned flags) {
  return api([&] {
    require(out != nullptr && (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST), CUDA_ERROR_INVALID_VALUE);
    *out = allocate(current(), bytes, MemoryKind::managed);
  });
}

CU_EXPORT CUresult cuMemFree_v2(CUdeviceptr pointer) {
  return api([&] {
    driver();
    if (pointer == 0) return;
    const auto found = driver().memory().find(pointer);
    if (found && found->kind == MemoryKind::graph) {
      forbid_unsafe_call();
      found->context->synchronize();
      if (free_graph_memory(pointer, found->context->legacy())) return;
    }
    free_now(pointer, {MemoryKind::device, MemoryKind::managed});
  });
}

CU_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream handle) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    Stream& stream = resolve(handle);
    Pool& pool = default_pool(stream.context->device);
    Pool* chosen = stream.context->device.current_pool;
    *out = allocate_async(bytes, chosen == nullptr ? pool : *chosen, stream);
  });
}

CU_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool, CUstream handle) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = allocate_async(bytes, from_handle<Pool>(pool), resolve(handle));
  });
}

CU_EXPORT CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream handle) {
  return api([&] {
    Stream& stream = resolve(handle);
    forbid_implicit_work(stream);
    if (stream.capture != nullptr) {
      record_free(stream, pointer);
      return;
    }
    if (free_graph_memory(pointer, stream)) return;
    const auto found = driver().memory().find(pointer);
    require(found && found->base == pointer &&
                (found->kind == MemoryKind::device || (found->kind == MemoryKind::managed && found->pool != nullptr)),
            CUDA_ERROR_INVALID_VALUE);
    const Allocation taken = *driver().memory().take(pointer);
    submit(stream, Command{.effect = [taken](const Ran&) { free_pages(taken); }, .frees = true});
  });
}

CU_EXPORT CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
  return api([&] {
    require(out != nullptr && flags <= kHostFlags, CUDA_ERROR_INVALID_VALUE);
    *out = reinterpret_cast<void*>(allocate(current(), bytes, MemoryKind::host, nullptr, flags | kHostMapped));
  });
}

CU_EXPORT CUresult cuMemAllocHost_v2(void** out, size_t bytes) { return cuMemHostAlloc(out, bytes, 0); }

CU_EXPORT CUresult cuMemFreeHost(void* pointer) {
  return api([&] {
    driver();
    if (pointer != nullptr) free_now(reinterpret_cast<uintptr_t>(pointer), {MemoryKind::host});
  });
}

CU_EXPORT CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned flags) {
  return api([&] {
    require(pointer != nullptr && bytes > 0 && flags <= kRegisterFlags, CUDA_ERROR_INVALID_VALUE);
    forbid_unsafe_call();
    const auto base = reinterpret_cast<uintptr_t>(pointer);
    const auto there = driver().memory().find(base);
    require(!there || there->kind != MemoryKind::host, CUDA_ERROR_INVALID_VALUE);
    require(!driver().memory().overlaps(base, bytes), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    Allocation made{base, bytes, 0, MemoryKind::registered, &current(), nullptr, 0};
    made.flags = flags | kHostMapped;
    driver().memory().insert(made);
  });
}

CU_EXPORT CUresult cuMemHostUnregister(void* pointer) {
  return api([&] {
    const auto base = reinterpret_cast<uintptr_t>(pointer);
    const auto found = driver().memory().find(base);
    require(!found || found->kind != MemoryKind::host, CUDA_ERROR_INVALID_VALUE);
    require(found && found->base == base && found->kind == MemoryKind::registered,
            CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    free_now(base, {MemoryKind::registered});
  });
}

namespace {

Allocation host_memory(const void* pointer) {
  const auto found = driver().memory().find(reinterpret_cast<uintptr_t>(pointer));
  require(found && (found->kind == MemoryKind::host || found->kind == MemoryKind::registered), CUDA_ERROR_INVALID_VALUE);
  return *found;
}

}  // namespace

CU_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer, unsigned flags) {
  return api([&] {
    host_memory(pointer);
    require(out != nullptr && flags == 0, CUDA_ERROR_INVALID_VALUE);
    *out = reinterpret_cast<uintptr_t>(pointer);
  });
}

CU_EXPORT CUresult cuMemHostGetFlags(unsigned* out, void* pointer) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = host_memory(pointer).flags;
  });
}

CU_EXPORT CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  return api([&] {
    Session& session = current().session();
    given(total) = session.memory_bytes();
    given(free_bytes) = *total - session.memory_used();
  });
}

CU_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer) {
  return api([&] {
    const auto found = driver().memory().find(pointer);
    require(found && found->kind != MemoryKind::registered, CUDA_ERROR_NOT_FOUND);
    if (base != nullptr) *base = found->base;
    if (bytes != nullptr) *bytes = found->bytes;
  });
}
