// What may be asked about a kernel, through either of its handles.
#include <algorithm>

#include "module.hpp"

using namespace emu;

namespace {

// Numbers of CUfunction_attribute.
enum FunctionAttribute {
  kMaxThreadsPerBlock = 0,
  kNumRegs = 4,
  kPtxVersion = 5,
  kBinaryVersion = 6,
  kMaxDynamicShared = 8,
  kLastAttribute = 15,
};

int attribute_of(const Function& function, int attribute) {
  require(attribute >= 0 && attribute <= kLastAttribute, CUDA_ERROR_INVALID_VALUE);
  const Config& config = driver().config();
  switch (attribute) {
    case kMaxThreadsPerBlock:
      return 1024;
    case kNumRegs:
      return 32;
    case kPtxVersion:
    case kBinaryVersion:
      return config.compute_major * 10 + config.compute_minor;
    case kMaxDynamicShared:
      return function.max_dynamic_shared;
    default:
      return 0;
  }
}

void set_attribute(Function& function, int attribute, int value) {
  require(attribute >= 0 && attribute <= kLastAttribute && value >= 0, CUDA_ERROR_INVALID_VALUE);
  if (attribute == kMaxDynamicShared) function.max_dynamic_shared = value;
}

constexpr int kThreadsPerMultiprocessor = 2048;

int blocks_per_multiprocessor(int block) {
  require(block > 0, CUDA_ERROR_INVALID_VALUE);
  return block > 1024 ? 0 : std::min(32, kThreadsPerMultiprocessor / block);
}

}  // namespace

CU_EXPORT CUresult cuFuncGetAttribute(int* out, int attribute, CUfunction function) {
  return api([&] { *out = attribute_of(function_of(function), attribute); });
}

CU_EXPORT CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  return api([&] { set_attribute(function_of(function), attribute, value); });
}

CU_EXPORT CUresult cuKernelGetAttribute(int* out, int attribute, CUkernel kernel, CUdevice) {
  return api([&] { *out = attribute_of(function_of(kernel), attribute); });
}

CU_EXPORT CUresult cuKernelSetAttribute(int attribute, int value, CUkernel kernel, CUdevice) {
  return api([&] { set_attribute(function_of(kernel), attribute, value); });
}

CU_EXPORT CUresult cuFuncGetName(const char** out, CUfunction function) {
  return api([&] { *out = function_of(function).name.c_str(); });
}

CU_EXPORT CUresult cuKernelGetName(const char** out, CUkernel kernel) {
  return api([&] { *out = function_of(kernel).name.c_str(); });
}

namespace {

CUresult parameter_of(const Function& function, size_t index, size_t* offset, size_t* bytes) {
  const auto* parameters = function.parameters();
  require(parameters != nullptr, CUDA_ERROR_NOT_SUPPORTED);  // only PTX says it
  require(offset != nullptr && index < parameters->size(), CUDA_ERROR_INVALID_VALUE);
  *offset = (*parameters)[index].offset;
  if (bytes != nullptr) *bytes = (*parameters)[index].bytes;
  return CUDA_SUCCESS;
}

}  // namespace

CU_EXPORT CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* bytes) {
  return api([&] { return parameter_of(function_of(function), index, offset, bytes); });
}

CU_EXPORT CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* bytes) {
  return api([&] { return parameter_of(function_of(kernel), index, offset, bytes); });
}

CU_EXPORT CUresult cuFuncGetModule(CUmodule* out, CUfunction handle) {
  return api([&] {
    Code& code = function_of(handle).code;
    if (code.kind == ObjectKind::module) {
      *out = to_handle<CUmodule>(&code);
      return;
    }
    auto& library = static_cast<Library&>(code);
    if (library.module == nullptr) library.module = new Module(current(), library.image);
    *out = to_handle<CUmodule>(library.module);
  });
}

CU_EXPORT CUresult cuFuncSetCacheConfig(CUfunction function, int) {
  return api([&] { function_of(function); });
}

CU_EXPORT CUresult cuKernelSetCacheConfig(CUkernel kernel, int, CUdevice) {
  return api([&] { function_of(kernel); });
}

CU_EXPORT CUresult cuFuncIsLoaded(int* state, CUfunction function) {
  return api([&] {
    function_of(function);
    *state = 1;
  });
}

CU_EXPORT CUresult cuFuncLoad(CUfunction function) {
  return api([&] { function_of(function); });
}

CU_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* out, CUfunction function, int block, size_t) {
  return api([&] {
    function_of(function);
    *out = blocks_per_multiprocessor(block);
  });
}

CU_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* out, CUfunction function, int block,
                                                                        size_t dynamic, unsigned) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(out, function, block, dynamic);
}

CU_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function, void*, size_t,
                                                    int limit) {
  return api([&] {
    function_of(function);
    *block = limit > 0 ? std::min(limit, 1024) : 1024;
    *grid = 132 * blocks_per_multiprocessor(*block);
  });
}

CU_EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function,
                                                             void* dynamic_of, size_t dynamic, int limit, unsigned) {
  return cuOccupancyMaxPotentialBlockSize(grid, block, function, dynamic_of, dynamic, limit);
}

CU_EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* out, CUfunction function, int, int) {
  return api([&] {
    function_of(function);
    *out = 49152;
  });
}
