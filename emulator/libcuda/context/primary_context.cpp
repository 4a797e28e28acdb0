// The primary context: one per device and process, counted, shared by everybody in the process who asks for it.
#include "libcuda/context/context.hpp"

using namespace emu;

CU_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice ordinal) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    Device& device = driver().device(ordinal);
    const std::lock_guard lock(device.mutex);
    if (device.primary == nullptr) {
      device.primary = new Context(device, device.primary_flags);
      device.primary->primary = true;
    }
    ++device.primary_users;
    *out = to_handle<CUcontext>(device.primary);
  });
}

CU_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal) {
  return api([&] {
    Device& device = driver().device(ordinal);
    const std::lock_guard lock(device.mutex);
    require(device.primary_users > 0, CUDA_ERROR_INVALID_CONTEXT);
    if (--device.primary_users > 0 || device.primary == nullptr) return;
    destroy_context(device.primary);
    device.primary = nullptr;
  });
}

// Resetting is not releasing: who retained it still has to (CUDA manual).
CU_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice ordinal) {
  return api([&] {
    Device& device = driver().device(ordinal);
    const std::lock_guard lock(device.mutex);
    if (device.primary != nullptr) destroy_context(device.primary);
    device.primary = nullptr;
  });
}

CU_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned flags) {
  return api([&] {
    Device& device = driver().device(ordinal);
    const std::lock_guard lock(device.mutex);
    device.primary_flags = flags;
  });
}

CU_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned* flags, int* active) {
  return api([&] {
    Device& device = driver().device(ordinal);
    const std::lock_guard lock(device.mutex);
    if (flags != nullptr) *flags = device.primary_flags;
    if (active != nullptr) *active = device.primary != nullptr ? 1 : 0;
  });
}
