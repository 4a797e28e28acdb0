// The driver API's functions that the replay client calls, found at run time in libcuda.so.1: one program for real and
// emulated devices. Own declarations; nothing here comes from a header of NVIDIA's.
#pragma once

#include <cstddef>

namespace replay {

using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;

#define REPLAY_DRIVER_FUNCTIONS(X)                                                                               \
  X(cuInit, (unsigned flags))                                                                                    \
  X(cuDeviceGet, (int* device, int ordinal))                                                                     \
  X(cuDeviceGetName, (char* name, int bytes, int device))                                                        \
  X(cuCtxCreate_v2, (CUcontext * context, unsigned flags, int device))                                           \
  X(cuCtxSynchronize, ())                                                                                        \
  X(cuModuleLoadData, (CUmodule * module, const void* image))                                                    \
  X(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char* name))                             \
  X(cuFuncSetAttribute, (CUfunction function, int attribute, int value))                                         \
  X(cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes))                                                        \
  X(cuMemHostAlloc, (void** address, size_t bytes, unsigned flags))                                              \
  X(cuMemcpyHtoDAsync_v2, (CUdeviceptr target, const void* source, size_t bytes, CUstream stream))               \
  X(cuMemcpyDtoHAsync_v2, (void* target, CUdeviceptr source, size_t bytes, CUstream stream))                     \
  X(cuMemcpyDtoDAsync_v2, (CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream))               \
  X(cuMemsetD8Async, (CUdeviceptr target, unsigned char value, size_t bytes, CUstream stream))                   \
  X(cuStreamCreate, (CUstream * stream, unsigned flags))                                                         \
  X(cuStreamSynchronize, (CUstream stream))                                                                      \
  X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                                         \
  X(cuEventCreate, (CUevent * event, unsigned flags))                                                            \
  X(cuEventRecord, (CUevent event, CUstream stream))                                                             \
  X(cuEventQuery, (CUevent event))                                                                              \
  X(cuEventSynchronize, (CUevent event))                                                                        \
  X(cuEventDestroy_v2, (CUevent event))                                                                          \
  X(cuEventElapsedTime, (float* ms, CUevent from, CUevent to))                                                   \
  X(cuLaunchKernel,                                                                                              \
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
     unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters, void** extra))

// The constructor throws std::runtime_error when there is no such library, or a function is missing in it.
class CudaDriver {
 public:
  CudaDriver();

// NOLINTNEXTLINE(bugprone-macro-parentheses): a parameter list has its own
#define REPLAY_DECLARE(name, parameters) int(*name) parameters = nullptr;
  REPLAY_DRIVER_FUNCTIONS(REPLAY_DECLARE)
#undef REPLAY_DECLARE
};

// Throws std::runtime_error with the call's name unless result is 0.
void check(int result, const char* call);

}  // namespace replay
