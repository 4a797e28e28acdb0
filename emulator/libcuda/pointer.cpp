// What is known about an address (CUpointer_attribute).
#include "memory.hpp"

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
  kRangeStart = 11,
  kRangeSize = 12,
  kMapped = 13,
  kMempool = 17,
};

template <typename T>
void put(void* out, T value) {
  *static_cast<T*>(out) = value;
}

CUresult answer(void* out, int attribute, const Allocation& memory, CUdeviceptr pointer) {
  const bool host = memory.kind == MemoryKind::host || memory.kind == MemoryKind::registered;
  switch (attribute) {
    case kContext:
      put(out, to_handle<CUcontext>(memory.context));
      break;
    case kMemoryType:
      put<unsigned>(out, host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
      break;
    case kDevicePointer:
      put(out, pointer);
      break;
    case kHostPointer:
      if (memory.kind == MemoryKind::device || memory.kind == MemoryKind::global) return CUDA_ERROR_INVALID_VALUE;
      put(out, pointer);
      break;
    case kSyncMemops:
      put<int>(out, 0);
      break;
    case kBufferId:
      put<unsigned long long>(out, memory.id);
      break;
    case kIsManaged:
      put<int>(out, memory.kind == MemoryKind::managed ? 1 : 0);
      break;
    case kDeviceOrdinal:
      put<int>(out, memory.context->device.ordinal);
      break;
    case kRangeStart:
      put<CUdeviceptr>(out, memory.base);
      break;
    case kRangeSize:
      put<size_t>(out, memory.bytes);
      break;
    case kMapped:
      put<int>(out, 1);
      break;
    case kMempool:
      put(out, memory.pool == nullptr ? nullptr : to_handle<CUmemoryPool>(memory.pool));
      break;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
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
      const bool small = attributes[i] == kMemoryType || attributes[i] == kSyncMemops || attributes[i] == kIsManaged ||
                         attributes[i] == kDeviceOrdinal || attributes[i] == kMapped;
      if (memory && answer(out[i], attributes[i], *memory, pointer) == CUDA_SUCCESS) continue;
      if (small) {
        put<int>(out[i], attributes[i] == kDeviceOrdinal ? -2 : 0);
      } else {
        put<uint64_t>(out[i], 0);
      }
    }
  });
}

CU_EXPORT CUresult cuPointerSetAttribute(const void*, int attribute, CUdeviceptr pointer) {
  return api([&] {
    require(driver().memory().find(pointer).has_value(), CUDA_ERROR_INVALID_VALUE);
    return attribute == kSyncMemops ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
  });
}
