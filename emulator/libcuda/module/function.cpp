// What may be asked about a kernel, through either of its handles.
#include "device_model/limits.hpp"
#include "libcuda/module/launch.hpp"
#include "libcuda/module/module.hpp"

using namespace emu;

namespace {

int attribute_of(const Function& function, int attribute) {
  require(attribute >= 0 && attribute <= kLastAttribute, CUDA_ERROR_INVALID_VALUE);
  const Config& config = driver().config();
  switch (attribute) {
    case kMaxThreadsPerBlock:
      return function.most_threads;
    case kNumRegs:
      return function.rule.registers;
    case kPtxVersion:
    case kBinaryVersion:
      return config.compute_major * 10 + config.compute_minor;
    default:
      return function.attributes[attribute];
  }
}

// What a program may set, and the values that it may have.
bool allowed(int attribute, int value) {
  switch (attribute) {
    case kMaxDynamicShared:
      return value >= 0 && value <= limits::kSharedPerBlockOptIn;
    case kSharedCarveout:  // a percentage, or -1 for "as you like"
      return value >= -1 && value <= 100;
    case kClusterWidth:
    case kClusterHeight:
    case kClusterDepth:
    case kClusterScheduling:
      return value >= 0;
    case kNonPortableClusters:
      return value == 0 || value == 1;
    default:
      return false;
  }
}

void set_attribute(Function& function, int attribute, int value) {
  require(allowed(attribute, value), CUDA_ERROR_INVALID_VALUE);
  function.attributes[attribute] = value;
}

}  // namespace

CU_EXPORT CUresult cuFuncGetAttribute(int* out, int attribute, CUfunction function) {
  return api([&] { given(out) = attribute_of(function_of(function), attribute); });
}

CU_EXPORT CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  return api([&] { set_attribute(function_of(function), attribute, value); });
}

CU_EXPORT CUresult cuKernelGetAttribute(int* out, int attribute, CUkernel kernel, CUdevice) {
  return api([&] { given(out) = attribute_of(function_of(kernel), attribute); });
}

CU_EXPORT CUresult cuKernelSetAttribute(int attribute, int value, CUkernel kernel, CUdevice) {
  return api([&] { set_attribute(function_of(kernel), attribute, value); });
}

CU_EXPORT CUresult cuFuncGetName(const char** out, CUfunction function) {
  return api([&] { given(out) = function_of(function).name.c_str(); });
}

CU_EXPORT CUresult cuKernelGetName(const char** out, CUkernel kernel) {
  return api([&] { given(out) = function_of(kernel).name.c_str(); });
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
      given(out) = to_handle<CUmodule>(&code);
      return;
    }
    auto& library = static_cast<Library&>(code);
    if (library.module == nullptr) library.module = new Module(current(), library.image);
    given(out) = to_handle<CUmodule>(library.module);
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
    given(state) = function_of(function).loaded.load() || driver().config().driver.first_launch_ns == 0 ? 1 : 0;
  });
}

CU_EXPORT CUresult cuFuncLoad(CUfunction function) {
  return api([&] { load_now(function_of(function), nullptr); });
}
