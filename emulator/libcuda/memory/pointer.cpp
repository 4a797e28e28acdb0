// What is known about an address (CUpointer_attribute).
#include "libcuda/memory/managed.hpp"
#include "libcuda/memory/memory.hpp"
#include "libcuda/memory/virtual_memory.hpp"

using namespace emu;

namespace {

enum PointerAttribute {
  kContext = 1,
  kMemoryType = 2,
  kDevicePointer = 3,
  kHostPointer = 4,
  kSyncMemops = 6,
  kBufferId = 7,
  kIsManaged = 8,
  kDeviceOrdinal = 9,
  kIpcCapable = 10,
  kRangeStart = 11,
  kRangeSize = 12,
  kMapped = 13,
  kHandleTypes = 14,
  kRdmaCapable = 15,
  kAccessFlags = 16,
  kMempool = 17,
  kMappingSize = 18,
  kMappingBase = 19,
  kBlockId = 20,
  kDecompressCapable = 21,
};

template <typename T>
void put(void* out, T value) {
  *static_cast<T*>(out) = value;
}

Device& device_of(const Allocation& memory) {
  return memory.device != nullptr ? *memory.device : memory.context->device;
}

// The addresses that were asked for at once: of mapped memory that is the reservation around it.
std::pair<uintptr_t, uint64_t> range_of(const Allocation& memory) {
  if (memory.kind == MemoryKind::mapped) return address_space().reservation(memory.base);
  return {memory.base, memory.bytes};
}

uint64_t handle_types(const Allocation& memory) {
  if (memory.kind != MemoryKind::mapped) return CU_MEM_HANDLE_TYPE_NONE;
  PhysicalMemory& physical = address_space().retain(memory.base);
  const int types = physical.properties.requestedHandleTypes;
  drop(physical, &PhysicalMemory::handles);
  return static_cast<uint64_t>(types);
}

// From the current context's device.
unsigned access_flags(const Allocation& memory) {
  if (memory.kind != MemoryKind::mapped) return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return address_space().access(memory.base, current().device);
}

// Managed memory that is out, to a driver that says where a page is (out_is_host). No public source tells what NVIDIA's says.
bool seen_out(const Allocation& memory, CUdeviceptr pointer) {
  if (memory.managed == nullptr || !driver().config().out_is_host) return false;
  const auto chunk = static_cast<int32_t>((pointer - memory.base) / kChunkBytes);
  return !memory.managed->session.on_device(memory.managed->chunks.first + chunk);
}

CUresult answer(void* out, int attribute, const Allocation& memory, CUdeviceptr pointer) {
  const bool host = memory.kind == MemoryKind::host || memory.kind == MemoryKind::registered;
  switch (attribute) {
    case kContext:
      put(out, to_handle<CUcontext>(memory.context));
      break;
    case kMemoryType:
      put<unsigned>(out, host || seen_out(memory, pointer) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
      break;
    case kDevicePointer:
      put(out, pointer);
      break;
    case kHostPointer:
      if (!host && memory.kind != MemoryKind::managed) return CUDA_ERROR_INVALID_VALUE;
      put(out, pointer);
      break;
    case kSyncMemops:
      put<int>(out, memory.sync_memops ? 1 : 0);
      break;
    case kBufferId:
      put<unsigned long long>(out, memory.id);
      break;
    case kIsManaged:
      put<int>(out, memory.kind == MemoryKind::managed ? 1 : 0);
      break;
    case kDeviceOrdinal:
      put<int>(out, device_of(memory).ordinal);
      break;
    case kRangeStart:
      put<CUdeviceptr>(out, range_of(memory).first);
      break;
    case kRangeSize:
      put<size_t>(out, range_of(memory).second);
      break;
    case kMapped:
      put<int>(out, 1);
      break;
    case kIpcCapable:
      put<int>(out, memory.kind == MemoryKind::device && memory.pool == nullptr ? 1 : 0);
      break;
    case kHandleTypes:
      put<uint64_t>(out, handle_types(memory));
      break;
    case kRdmaCapable:
    case kDecompressCapable:
      put<int>(out, 0);
      break;
    case kAccessFlags:
      put<unsigned>(out, access_flags(memory));
      break;
    case kMappingSize:
      put<size_t>(out, memory.bytes);
      break;
    case kMappingBase:
      put<CUdeviceptr>(out, memory.base);
      break;
    case kBlockId:
      put<uint64_t>(out, memory.id);
      break;
    case kMempool:
      put(out, memory.pool == nullptr ? nullptr : to_handle<CUmemoryPool>(memory.pool));
      break;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

bool has_four_bytes(int attribute) {
  switch (attribute) {
    case kMemoryType:
    case kSyncMemops:
    case kIsManaged:
    case kDeviceOrdinal:
    case kIpcCapable:
    case kMapped:
    case kRdmaCapable:
    case kAccessFlags:
    case kDecompressCapable:
      return true;
    default:
      return false;
  }
}

}  // namespace

CU_EXPORT CUresult cuPointerGetAttribute(void* out, int attribute, CUdeviceptr pointer) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    const auto memory = driver().memory().find(pointer);
    require(memory.has_value(), CUDA_ERROR_INVALID_VALUE);
    return answer(out, attribute, *memory, pointer);
  });
}

// Unlike the single form, unknown addresses and attributes read as zero (CUDA manual).
CU_EXPORT CUresult cuPointerGetAttributes(unsigned count, int* attributes, void** out, CUdeviceptr pointer) {
  return api([&] {
    require(attributes != nullptr && out != nullptr, CUDA_ERROR_INVALID_VALUE);
    const auto memory = driver().memory().find(pointer);
    for (unsigned i = 0; i < count; ++i) {
      const bool small = has_four_bytes(attributes[i]);
      if (memory && answer(out[i], attributes[i], *memory, pointer) == CUDA_SUCCESS) continue;
      if (small) {
        put<int>(out[i], attributes[i] == kDeviceOrdinal ? -2 : 0);
      } else {
        put<uint64_t>(out[i], 0);
      }
    }
  });
}

CU_EXPORT CUresult cuPointerSetAttribute(const void* value, int attribute, CUdeviceptr pointer) {
  return api([&] {
    const auto memory = driver().memory().find(pointer);
    require(memory.has_value() && value != nullptr, CUDA_ERROR_INVALID_VALUE);
    require(attribute == kSyncMemops, CUDA_ERROR_NOT_SUPPORTED);
    const bool on = *static_cast<const int*>(value) != 0;
    driver().memory().change(memory->base, [on](Allocation& changed) { changed.sync_memops = on; });
  });
}
