// Memory pools: accounting only, every stream-ordered allocation has pages of its own.
#include "memory.hpp"

namespace emu {

Pool& default_pool(Device& device) {
  const std::lock_guard lock(device.mutex);
  if (device.default_pool == nullptr) device.default_pool = new Pool(device);
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
  return api([&] { *out = to_handle<CUmemoryPool>(&default_pool(driver().device(ordinal))); });
}

CU_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice ordinal) {
  return api([&] {
    Device& device = driver().device(ordinal);
    Pool& fallback = default_pool(device);
    *out = to_handle<CUmemoryPool>(device.current_pool == nullptr ? &fallback : device.current_pool);
  });
}

CU_EXPORT CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool pool) {
  return api([&] { driver().device(ordinal).current_pool = &from_handle<Pool>(pool); });
}

// The properties name a location and handle types for sharing; only plain device pools exist here, on device 0's
// ordinal in `id`.
CU_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* out, const void* properties) {
  return api([&] {
    require(out != nullptr && properties != nullptr, CUDA_ERROR_INVALID_VALUE);
    struct Properties {
      int allocation_type, handle_types, location_type, location_id;
    };
    const auto& wanted = *static_cast<const Properties*>(properties);
    require(wanted.handle_types == 0, CUDA_ERROR_NOT_SUPPORTED);
    *out = to_handle<CUmemoryPool>(new Pool(driver().device(wanted.location_id)));
  });
}

CU_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  return api([&] {
    auto& pool = from_handle<Pool>(handle);
    require(&pool != pool.device.default_pool, CUDA_ERROR_INVALID_VALUE);
    if (pool.device.current_pool == &pool) pool.device.current_pool = nullptr;
    // Allocations may outlive their pool and still count in it: the few bytes stay.
    pool.kind = ObjectKind::dead;
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
    } else if (attribute == kReservedCurrent || attribute == kUsedCurrent) {
      *static_cast<uint64_t*>(value) = pool.used;
    } else if (attribute == kReservedHigh || attribute == kUsedHigh) {
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
      pool.used_high = pool.used;
    } else {
      throw Failure{CUDA_ERROR_INVALID_VALUE};
    }
  });
}

CU_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t) {
  return api([&] { from_handle<Pool>(handle); });
}

CU_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool handle, const void*, size_t) {
  return api([&] { from_handle<Pool>(handle); });
}
