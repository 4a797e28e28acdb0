// Memory pools: accounting only, every stream-ordered allocation has pages of its own.
#include <algorithm>

#include "libcuda/driver/entry_points.hpp"
#include "libcuda/memory/memory.hpp"
#include "libcuda/memory/physical_memory.hpp"

namespace emu {

namespace {

constexpr int kManagedPools = 13000;  // the first CUDA version that has them

Pool* add_pool(Device& device, bool managed) {
  auto* pool = new Pool(device);
  pool->managed = managed;
  const std::lock_guard lock(device.pools_mutex);
  device.pools.push_back(pool);
  return pool;
}

void trim_pools(Device& device, bool all) {
  const std::lock_guard lock(device.pools_mutex);
  for (Pool* pool : device.pools) pool->trim(all ? 0 : pool->release_threshold);
}

}  // namespace

bool Pool::take(uint64_t bytes) {
  uint64_t missing = 0;
  {
    const std::lock_guard lock(mutex);
    if (bytes > most_bytes - used) return false;
    missing = bytes - std::min(bytes, reserved - used);
    reserved += missing;
    used += bytes;
  }
  if (missing > 0 && !managed && !device.session().reserve(missing)) {
    empty_pools(device);
    if (!device.session().reserve(missing)) {
      const std::lock_guard lock(mutex);
      reserved -= missing;
      used -= bytes;
      return false;
    }
  }
  const std::lock_guard lock(mutex);
  used_high = std::max(used_high, used);
  reserved_high = std::max(reserved_high, reserved);
  return true;
}

void Pool::give_back(uint64_t bytes) {
  bool last_home = false;
  {
    const std::lock_guard lock(mutex);
    used -= bytes;
    last_home = destroyed;
  }
  if (last_home) trim(0);
  device.pools_hold.store(true);
}

void Pool::trim(uint64_t keep) {
  uint64_t excess = 0;
  {
    const std::lock_guard lock(mutex);
    const uint64_t kept = std::max(keep, used);
    excess = reserved - std::min(reserved, kept);
    reserved -= excess;
  }
  if (excess > 0 && !managed) device.session().release(excess);
}

void settle_pools(Device& device) {
  if (device.pools_hold.load(std::memory_order_relaxed) && device.pools_hold.exchange(false)) trim_pools(device, false);
}

void empty_pools(Device& device) { trim_pools(device, true); }

Pool& default_pool(Device& device) {
  const std::lock_guard lock(device.mutex);
  if (device.default_pool == nullptr) device.default_pool = add_pool(device, false);
  return *device.default_pool;
}

}  // namespace emu

using namespace emu;

namespace {

// Numbers of CUmemPool_attribute.
enum PoolAttribute {
  kReuseFirst = 1,
  kReuseLast = 3,
  kReleaseThreshold = 4,
  kReservedCurrent = 5,
  kReservedHigh = 6,
  kUsedCurrent = 7,
  kUsedHigh = 8,
};

}  // namespace

CU_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice ordinal) {
  return api([&] { given(out) = to_handle<CUmemoryPool>(&default_pool(driver().device(ordinal))); });
}

namespace {

Pool& current_pool(Device& device) {
  Pool& fallback = default_pool(device);
  return device.current_pool == nullptr ? fallback : *device.current_pool;
}

void set_current_pool(Device& device, CUmemoryPool handle) {
  auto& pool = from_handle<Pool>(handle);
  require(&pool.device == &device, CUDA_ERROR_INVALID_VALUE);
  device.current_pool = &pool;
}

}  // namespace

CU_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice ordinal) {
  return api([&] { given(out) = to_handle<CUmemoryPool>(&current_pool(driver().device(ordinal))); });
}

CU_EXPORT CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool pool) {
  return api([&] { set_current_pool(driver().device(ordinal), pool); });
}

// The same by location. Pools of host memory: attributes 142 and 144 say that there are none. Managed ones have to be made: there is no default one.
namespace {

Device& pool_device(const CUmemLocation* location, int type) {
  driver();
  require(location != nullptr, CUDA_ERROR_INVALID_VALUE);
  require(type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_NOT_SUPPORTED);
  return device_at(*location);
}

}  // namespace

CU_EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool* out, const CUmemLocation* location, int type) {
  return api([&] { given(out) = to_handle<CUmemoryPool>(&default_pool(pool_device(location, type))); });
}

CU_EXPORT CUresult cuMemGetMemPool(CUmemoryPool* out, const CUmemLocation* location, int type) {
  return api([&] { given(out) = to_handle<CUmemoryPool>(&current_pool(pool_device(location, type))); });
}

CU_EXPORT CUresult cuMemSetMemPool(const CUmemLocation* location, int type, CUmemoryPool handle) {
  return api([&] { set_current_pool(pool_device(location, type), handle); });
}

CU_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* wanted) {
  return api([&] {
    driver();
    require(out != nullptr && wanted != nullptr, CUDA_ERROR_INVALID_VALUE);
    const bool managed = wanted->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED && kDriverVersion >= kManagedPools;
    require(managed || wanted->allocType == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
    // CUDA manual, cuMemPoolCreate: a managed pool has no maximum, no use and no handles.
    require(!managed || (wanted->maxSize == 0 && wanted->usage == 0 && wanted->handleTypes == CU_MEM_HANDLE_TYPE_NONE),
            CUDA_ERROR_INVALID_VALUE);
    // Pools that other processes may import: attribute 119 says that there are none.
    require(wanted->handleTypes == CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED);
    Pool* made = add_pool(device_at(wanted->location), managed);
    if (wanted->maxSize > 0) made->most_bytes = wanted->maxSize;
    *out = to_handle<CUmemoryPool>(made);
  });
}

CU_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  return api([&] {
    driver();
    auto& pool = from_handle<Pool>(handle);
    require(&pool != pool.device.default_pool, CUDA_ERROR_INVALID_VALUE);
    if (pool.device.current_pool == &pool) pool.device.current_pool = nullptr;
    pool.kind = ObjectKind::dead;
    {
      const std::lock_guard lock(pool.device.pools_mutex);
      std::erase(pool.device.pools, &pool);
    }
    {
      const std::lock_guard lock(pool.mutex);
      pool.destroyed = true;
    }
    pool.trim(0);
  });
}

CU_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool handle, int attribute, void* value) {
  return api([&] {
    auto& pool = from_handle<Pool>(handle);
    const std::lock_guard lock(pool.mutex);
    if (attribute >= kReuseFirst && attribute <= kReuseLast) {
      *static_cast<int*>(value) = pool.reuse[attribute - kReuseFirst];
    } else if (attribute == kReleaseThreshold) {
      *static_cast<uint64_t*>(value) = pool.release_threshold;
    } else if (attribute == kReservedCurrent) {
      *static_cast<uint64_t*>(value) = pool.reserved;
    } else if (attribute == kReservedHigh) {
      *static_cast<uint64_t*>(value) = pool.reserved_high;
    } else if (attribute == kUsedCurrent) {
      *static_cast<uint64_t*>(value) = pool.used;
    } else if (attribute == kUsedHigh) {
      *static_cast<uint64_t*>(value) = pool.used_high;
    } else {
      throw Failure{CUDA_ERROR_INVALID_VALUE};
    }
  });
}

CU_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool handle, int attribute, void* value) {
  return api([&] {
    auto& pool = from_handle<Pool>(handle);
    const std::lock_guard lock(pool.mutex);
    if (attribute >= kReuseFirst && attribute <= kReuseLast) {
      pool.reuse[attribute - kReuseFirst] = *static_cast<int*>(value);
    } else if (attribute == kReleaseThreshold) {
      pool.release_threshold = *static_cast<uint64_t*>(value);
    } else if (attribute == kReservedHigh || attribute == kUsedHigh) {
      // Only back to what there is now.
      require(*static_cast<uint64_t*>(value) == 0, CUDA_ERROR_INVALID_VALUE);
      (attribute == kUsedHigh ? pool.used_high : pool.reserved_high) =
          attribute == kUsedHigh ? pool.used : pool.reserved;
    } else {
      throw Failure{CUDA_ERROR_INVALID_VALUE};
    }
  });
}

CU_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep) {
  return api([&] {
    driver();
    from_handle<Pool>(handle).trim(keep);
  });
}

CU_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* access, size_t count) {
  return api([&] {
    driver();
    auto& pool = from_handle<Pool>(handle);
    require(access != nullptr || count == 0, CUDA_ERROR_INVALID_VALUE);
    const std::lock_guard lock(pool.mutex);
    for (size_t i = 0; i < count; ++i) {
      Device& device = device_at(access[i].location);
      const bool kept = &device != &pool.device || access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      require(kept, CUDA_ERROR_INVALID_DEVICE);  // its own device always has all of it
      pool.access[&device] = access[i].flags;
    }
  });
}

CU_EXPORT CUresult cuMemPoolGetAccess(unsigned* out, CUmemoryPool handle, const CUmemLocation* location) {
  return api([&] {
    driver();
    auto& pool = from_handle<Pool>(handle);
    require(out != nullptr && location != nullptr, CUDA_ERROR_INVALID_VALUE);
    const Device& device = device_at(*location);
    const std::lock_guard lock(pool.mutex);
    const auto found = pool.access.find(&device);
    *out = &device == &pool.device      ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
           : found == pool.access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE
                                        : found->second;
  });
}

// A pool in another process: as there is no pool that can be exported, neither can its memory.
CU_EXPORT CUresult cuMemPoolExportToShareableHandle(void* out, CUmemoryPool handle, int, unsigned long long flags) {
  return api([&] {
    driver();
    from_handle<Pool>(handle);
    require(out != nullptr && flags == 0, CUDA_ERROR_INVALID_VALUE);
    return CUDA_ERROR_NOT_SUPPORTED;
  });
}

CU_EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* out, void*, int, unsigned long long flags) {
  return api([&] {
    driver();
    require(out != nullptr && flags == 0, CUDA_ERROR_INVALID_VALUE);
    return CUDA_ERROR_NOT_SUPPORTED;
  });
}

CU_EXPORT CUresult cuMemPoolExportPointer(void* out, CUdeviceptr pointer) {
  return api([&] {
    const auto found = driver().memory().find(pointer);
    require(out != nullptr && found && found->pool != nullptr, CUDA_ERROR_INVALID_VALUE);
    return CUDA_ERROR_NOT_SUPPORTED;
  });
}

CU_EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr* out, CUmemoryPool handle, const void* data) {
  return api([&] {
    driver();
    from_handle<Pool>(handle);
    require(out != nullptr && data != nullptr, CUDA_ERROR_INVALID_VALUE);
    return CUDA_ERROR_NOT_SUPPORTED;
  });
}
