/* The driver's answers about how much memory there is: a job with a limit sees the limit. */
#include "memory/memory.h"
#include "base/memory_abi.h"
#include "base/symbols.h"

static unsigned in_32_bits(uint64_t bytes) {
  return bytes < UINT32_MAX ? (unsigned)bytes : UINT32_MAX;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
  CUresult result = REAL(cuMemGetInfo_v2)(free_bytes, total_bytes);
  if (result == CUDA_SUCCESS)
    fikit_memory_narrow(fikit_device_current(NULL), free_bytes, total_bytes);
  return result;
}

CUresult cuMemGetInfo(unsigned *free_bytes, unsigned *total_bytes) {
  uint64_t free_now = UINT64_MAX, total = UINT64_MAX;
  CUresult result = REAL(cuMemGetInfo)(free_bytes, total_bytes);
  if (result != CUDA_SUCCESS)
    return result;
  fikit_memory_narrow(fikit_device_current(NULL), &free_now, &total);
  if (free_bytes && in_32_bits(free_now) < *free_bytes)
    *free_bytes = in_32_bits(free_now);
  if (total_bytes && in_32_bits(total) < *total_bytes)
    *total_bytes = in_32_bits(total);
  return result;
}

/* Asked before any context is made: attaches to fikitd, or a program would plan with memory that it will not get. */
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  CUresult result = REAL(cuDeviceTotalMem_v2)(bytes, device);
  if (result == CUDA_SUCCESS)
    fikit_memory_narrow(fikit_device_of(device), NULL, bytes);
  return result;
}

CUresult cuDeviceTotalMem(unsigned *bytes, CUdevice device) {
  uint64_t total = UINT64_MAX;
  CUresult result = REAL(cuDeviceTotalMem)(bytes, device);
  if (result != CUDA_SUCCESS)
    return result;
  fikit_memory_narrow(fikit_device_of(device), NULL, &total);
  if (in_32_bits(total) < *bytes)
    *bytes = in_32_bits(total);
  return result;
}
