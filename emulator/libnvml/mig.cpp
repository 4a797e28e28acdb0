// MIG: which GPUs are split, and into what. How instances are made is not emulated: the configuration says it.
#include "library.hpp"

using namespace emu;

namespace {

nvmlReturn instance_number(nvmlDevice handle, unsigned* out, unsigned (*number)(const MonitoredDevice&)) {
  return api(handle, [&](const Library&, const MonitoredDevice& device) {
    require(device.instance, NVML_ERROR_NOT_SUPPORTED);
    give(out, number(device));
  });
}

}  // namespace

NVML_EXPORT nvmlReturn nvmlDeviceGetMigMode(nvmlDevice handle, unsigned* current, unsigned* pending) {
  return api(handle, [&](const Library& lib, const MonitoredDevice& device) {
    require(!device.instance, NVML_ERROR_INVALID_ARGUMENT);
    require_present(device);
    give(current, lib.split() ? 1 : 0);
    give(pending, lib.split() ? 1 : 0);
  });
}

NVML_EXPORT nvmlReturn nvmlDeviceIsMigDeviceHandle(nvmlDevice handle, unsigned* out) {
  return api(handle, [&](const Library&, const MonitoredDevice& device) { give(out, device.instance ? 1 : 0); });
}

NVML_EXPORT nvmlReturn nvmlDeviceGetMaxMigDeviceCount(nvmlDevice handle, unsigned* out) {
  return api(handle, [&](const Library& lib, const MonitoredDevice& device) {
    require_present(device);
    give(out, lib.split() && !device.instance ? static_cast<unsigned>(kMigSlices) : 0);
  });
}

NVML_EXPORT nvmlReturn nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice handle, unsigned index, nvmlDevice* out) {
  return api(handle, [&](const Library& lib, const MonitoredDevice& gpu) {
    require(out != nullptr && !gpu.instance && index < static_cast<unsigned>(kMigSlices), NVML_ERROR_INVALID_ARGUMENT);
    for (const MonitoredDevice& instance : lib.instances()) {
      if (instance.gpu != gpu.index || static_cast<unsigned>(instance.index) != index) continue;
      *out = Library::handle(instance);
      return;
    }
    throw NvmlFailure{NVML_ERROR_NOT_FOUND};
  });
}

NVML_EXPORT nvmlReturn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice handle, nvmlDevice* out) {
  return api(handle, [&](const Library& lib, const MonitoredDevice& device) {
    require(device.instance, NVML_ERROR_INVALID_ARGUMENT);
    give(out, Library::handle(lib.devices()[static_cast<size_t>(device.gpu)]));
  });
}

NVML_EXPORT nvmlReturn nvmlDeviceGetGpuInstanceId(nvmlDevice handle, unsigned* out) {
  return instance_number(handle, out, [](const MonitoredDevice& device) {
    return gpu_instance_id(static_cast<unsigned>(device.index));
  });
}

NVML_EXPORT nvmlReturn nvmlDeviceGetComputeInstanceId(nvmlDevice handle, unsigned* out) {
  return instance_number(handle, out, [](const MonitoredDevice&) { return kComputeInstance; });
}
