// Launches in the form of the first CUDA versions, which PyCUDA still uses: block shape and parameters are set on the
// function, one call each, and stay there.
#include <cstring>

#include "libcuda/module/module.hpp"

using namespace emu;

extern "C" CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                   CUstream stream, void** parameters, void** extra);

namespace {

constexpr size_t kMostParameterBytes = 4096;

void set_parameter(CUfunction function, int offset, const void* value, size_t bytes) {
  auto& parameters = function_of(function).legacy.parameters;
  require(offset >= 0 && value != nullptr && static_cast<size_t>(offset) + bytes <= kMostParameterBytes, CUDA_ERROR_INVALID_VALUE);
  const size_t end = static_cast<size_t>(offset) + bytes;
  if (parameters.size() < end) parameters.resize(end);
  memcpy(parameters.data() + offset, value, bytes);
}

CUresult launch(CUfunction function, int width, int height, CUstream stream, const char* call = __builtin_FUNCTION()) {
  LegacyLaunch legacy;
  const CUresult found = api([&] {
    require(width > 0 && height > 0, CUDA_ERROR_INVALID_VALUE);
    legacy = function_of(function).legacy;
  }, call);
  if (found != CUDA_SUCCESS) return found;
  size_t bytes = legacy.parameters.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, legacy.parameters.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   nullptr};
  return cuLaunchKernel(function, static_cast<unsigned>(width), static_cast<unsigned>(height), 1, legacy.block[0],
                        legacy.block[1], legacy.block[2], legacy.shared_bytes, stream, nullptr, extra);
}

}  // namespace

CU_EXPORT CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z) {
  return api([&] {
    require(x > 0 && y > 0 && z > 0, CUDA_ERROR_INVALID_VALUE);
    auto& block = function_of(function).legacy.block;
    block[0] = static_cast<unsigned>(x);
    block[1] = static_cast<unsigned>(y);
    block[2] = static_cast<unsigned>(z);
  });
}

CU_EXPORT CUresult cuFuncSetSharedSize(CUfunction function, unsigned bytes) {
  return api([&] { function_of(function).legacy.shared_bytes = bytes; });
}

CU_EXPORT CUresult cuParamSetSize(CUfunction function, unsigned bytes) {
  return api([&] {
    require(bytes <= kMostParameterBytes, CUDA_ERROR_INVALID_VALUE);
    function_of(function).legacy.parameters.resize(bytes);
  });
}

CU_EXPORT CUresult cuParamSeti(CUfunction function, int offset, unsigned value) {
  return api([&] { set_parameter(function, offset, &value, sizeof value); });
}

CU_EXPORT CUresult cuParamSetf(CUfunction function, int offset, float value) {
  return api([&] { set_parameter(function, offset, &value, sizeof value); });
}

CU_EXPORT CUresult cuParamSetv(CUfunction function, int offset, void* value, unsigned bytes) {
  return api([&] { set_parameter(function, offset, value, bytes); });
}

CU_EXPORT CUresult cuLaunch(CUfunction function) { return launch(function, 1, 1, nullptr); }

CU_EXPORT CUresult cuLaunchGrid(CUfunction function, int width, int height) {
  return launch(function, width, height, nullptr);
}

CU_EXPORT CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
  return launch(function, width, height, stream);
}
