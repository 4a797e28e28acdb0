#include "libcuda/memory/physical_memory.hpp"

#include <fcntl.h>

#include <cstring>

#include "device_model/clock.hpp"

namespace emu {
namespace {

std::mutex g_users_mutex;
constexpr int64_t kLeastSleepNs = 100'000;  // who sleeps for less wakes late in proportion

// What the emulated device can make: pinned device memory, shareable by descriptor or not at all.
Device& checked(const CUmemAllocationProp* properties) {
  require(properties != nullptr && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
  require((properties->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0 && properties->usage == 0,
          CUDA_ERROR_NOT_SUPPORTED);
  return device_at(properties->location);
}

Device& device_with(const CUuuid& uuid) {
  for (int i = 0; i < driver().count(); ++i) {
    Device& device = driver().device(i);
    if (memcmp(&device.uuid, &uuid, sizeof uuid) == 0) return device;
  }
  throw Failure{CUDA_ERROR_NOT_SUPPORTED};  // of a device that this process does not see
}

}  // namespace

PhysicalMemory::~PhysicalMemory() {
  if (reserved > 0) device.session().release(reserved);
}

PhysicalMemory& physical_memory(CUmemGenericAllocationHandle handle) {
  return from_handle<PhysicalMemory>(reinterpret_cast<const void*>(handle), CUDA_ERROR_INVALID_VALUE);
}

CUmemGenericAllocationHandle handle_of(PhysicalMemory& memory) {
  return reinterpret_cast<CUmemGenericAllocationHandle>(&memory);
}

void hold(PhysicalMemory& memory, int PhysicalMemory::* users) {
  const std::lock_guard lock(g_users_mutex);
  ++(memory.*users);
}

void drop(PhysicalMemory& memory, int PhysicalMemory::* users) {
  {
    const std::lock_guard lock(g_users_mutex);
    require(memory.*users > 0, CUDA_ERROR_INVALID_VALUE);
    --(memory.*users);
    if (memory.handles + memory.mappings > 0) return;
  }
  delete &memory;
}

void take_time(int64_t piece_ns, uint64_t bytes) {
  if (piece_ns == 0) return;
  RealClock clock;
  const auto pieces = static_cast<int64_t>((bytes + kGranularity - 1) / kGranularity);
  const int64_t end_ns = clock.now_ns() + driver().config().stretched(pieces * piece_ns);
  if (end_ns - clock.now_ns() > kLeastSleepNs) clock.sleep_until(end_ns);
  while (clock.now_ns() < end_ns) continue;
}

Device& device_at(const CUmemLocation& location) {
  require(location.type != CU_MEM_LOCATION_TYPE_INVALID, CUDA_ERROR_INVALID_VALUE);
  require(location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
  return driver().device(location.id);
}

}  // namespace emu

using namespace emu;

CU_EXPORT CUresult cuMemGetAllocationGranularity(size_t* out, const CUmemAllocationProp* properties, int option) {
  return api([&] {
    driver();
    require(out != nullptr && (option == 0 || option == 1), CUDA_ERROR_INVALID_VALUE);
    checked(properties);
    *out = kGranularity;
  });
}

CU_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes, const CUmemAllocationProp* properties,
                               unsigned long long flags) {
  return api([&] {
    driver();
    require(out != nullptr && bytes > 0 && bytes % kGranularity == 0 && flags == 0, CUDA_ERROR_INVALID_VALUE);
    Device& device = checked(properties);
    require(device.session().reserve(bytes), CUDA_ERROR_OUT_OF_MEMORY);
    try {
      CUmemAllocationProp kept = *properties;
      kept.compressionType = 0;  // no more than wishes, which no emulated device fulfils
      kept.gpuDirectRDMACapable = 0;
      *out = handle_of(*new PhysicalMemory(device, SharedBytes::create(bytes, device.uuid), kept, bytes));
      take_time(driver().config().virtual_memory.create_ns, bytes);
    } catch (const Failure&) {
      device.session().release(bytes);
      throw;
    }
  });
}

CU_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return api([&] {
    driver();
    drop(physical_memory(handle), &PhysicalMemory::handles);
  });
}

CU_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                                          CUmemGenericAllocationHandle handle) {
  return api([&] {
    driver();
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = physical_memory(handle).properties;
  });
}

CU_EXPORT CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle, int type,
                                                unsigned long long flags) {
  return api([&] {
    driver();
    const PhysicalMemory& memory = physical_memory(handle);
    require(out != nullptr && flags == 0, CUDA_ERROR_INVALID_VALUE);
    require(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_NOT_SUPPORTED);
    require(memory.properties.requestedHandleTypes == type, CUDA_ERROR_INVALID_VALUE);
    const int fd = fcntl(memory.bytes.fd(), F_DUPFD_CLOEXEC, 0);
    require(fd >= 0, CUDA_ERROR_OUT_OF_MEMORY);
    *static_cast<int*>(out) = fd;
  });
}

CU_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* os_handle, int type) {
  return api([&] {
    driver();
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    require(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_NOT_SUPPORTED);
    // The descriptor itself is passed in the pointer's place, and stays the caller's.
    const int fd = fcntl(static_cast<int>(reinterpret_cast<intptr_t>(os_handle)), F_DUPFD_CLOEXEC, 0);
    require(fd >= 0, CUDA_ERROR_INVALID_VALUE);
    auto bytes = SharedBytes::adopt(fd);
    require(bytes.has_value(), CUDA_ERROR_INVALID_VALUE);
    Device& device = device_with(bytes->device());
    const CUmemAllocationProp properties{CU_MEM_ALLOCATION_TYPE_PINNED, type,
                                         {CU_MEM_LOCATION_TYPE_DEVICE, device.ordinal}, nullptr, 0, 0, 0, {}};
    *out = handle_of(*new PhysicalMemory(device, std::move(*bytes), properties, 0));
  });
}

// One GPU's memory seen by many at one address: no emulated device has it, attribute 132 says so.
CU_EXPORT CUresult cuMulticastCreate(CUmemGenericAllocationHandle* out, const void* properties) {
  return api([&] {
    driver();
    require(out != nullptr && properties != nullptr, CUDA_ERROR_INVALID_VALUE);
    return CUDA_ERROR_NOT_SUPPORTED;
  });
}

CU_EXPORT CUresult cuMulticastGetGranularity(size_t* out, const void* properties, int) {
  return api([&] {
    driver();
    require(out != nullptr && properties != nullptr, CUDA_ERROR_INVALID_VALUE);
    return CUDA_ERROR_NOT_SUPPORTED;
  });
}
