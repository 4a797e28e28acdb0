// What an emulated device has one fixed answer to. None is a measurement: they are there because monitors show these
// columns.
#include "library.hpp"

using namespace emu;

namespace {

constexpr int kCelsius = 40;
constexpr unsigned kPowerMilliwatt = 100'000;
constexpr unsigned kPowerLimitMilliwatt = 300'000;
constexpr unsigned kSmClockMhz = 1500;      // as device attribute 13 of ../libcuda, in kHz there
constexpr unsigned kMemoryClockMhz = 1000;  // device attribute 36
constexpr unsigned kSamplePeriodUs = 200'000;

constexpr unsigned kGpuSensor = 0;
constexpr unsigned kMemoryClock = 2;
constexpr unsigned kClocks = 4;  // graphics, SM, memory, video
constexpr unsigned kComputeModeDefault = 0;
constexpr unsigned kPerformanceStateHighest = 0;
constexpr unsigned kOn = 1;

nvmlReturn constant(nvmlDevice handle, unsigned* out, unsigned value) {
  return api(handle, [&](const Library&, const MonitoredDevice& device) {
    require_present(device);
    give(out, value);
  });
}

nvmlReturn no_codec(nvmlDevice handle, unsigned* utilisation, unsigned* period_us) {
  return api(handle, [&](const Library&, const MonitoredDevice& device) {
    require_present(device);
    give(utilisation, 0);
    give(period_us, kSamplePeriodUs);
  });
}

nvmlReturn clock(nvmlDevice handle, unsigned kind, unsigned* out) {
  return api(handle, [&](const Library&, const MonitoredDevice& device) {
    require_present(device);
    require(kind < kClocks, NVML_ERROR_INVALID_ARGUMENT);
    give(out, kind == kMemoryClock ? kMemoryClockMhz : kSmClockMhz);
  });
}

}  // namespace

NVML_EXPORT nvmlReturn nvmlDeviceGetTemperature(nvmlDevice handle, unsigned sensor, unsigned* out) {
  return api(handle, [&](const Library&, const MonitoredDevice& device) {
    require_present(device);
    require(sensor == kGpuSensor, NVML_ERROR_INVALID_ARGUMENT);
    give(out, static_cast<unsigned>(kCelsius));
  });
}

NVML_EXPORT nvmlReturn nvmlDeviceGetTemperatureV(nvmlDevice handle, nvmlTemperature_v1* out) {
  return api(handle, [&](const Library&, const MonitoredDevice& device) {
    require_present(device);
    require(out != nullptr && out->sensor == kGpuSensor, NVML_ERROR_INVALID_ARGUMENT);
    require(out->version == (sizeof *out | 1U << 24), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    out->celsius = kCelsius;
  });
}

NVML_EXPORT nvmlReturn nvmlDeviceGetPowerUsage(nvmlDevice handle, unsigned* out) {
  return constant(handle, out, kPowerMilliwatt);
}

NVML_EXPORT nvmlReturn nvmlDeviceGetEnforcedPowerLimit(nvmlDevice handle, unsigned* out) {
  return constant(handle, out, kPowerLimitMilliwatt);
}

NVML_EXPORT nvmlReturn nvmlDeviceGetPowerManagementLimit(nvmlDevice handle, unsigned* out) {
  return constant(handle, out, kPowerLimitMilliwatt);
}

NVML_EXPORT nvmlReturn nvmlDeviceGetClockInfo(nvmlDevice handle, unsigned kind, unsigned* out) {
  return clock(handle, kind, out);
}

NVML_EXPORT nvmlReturn nvmlDeviceGetMaxClockInfo(nvmlDevice handle, unsigned kind, unsigned* out) {
  return clock(handle, kind, out);
}

NVML_EXPORT nvmlReturn nvmlDeviceGetPerformanceState(nvmlDevice handle, unsigned* out) {
  return constant(handle, out, kPerformanceStateHighest);
}

NVML_EXPORT nvmlReturn nvmlDeviceGetComputeMode(nvmlDevice handle, unsigned* out) {
  return constant(handle, out, kComputeModeDefault);
}

// On, because nothing is loaded or unloaded when clients come and go.
NVML_EXPORT nvmlReturn nvmlDeviceGetPersistenceMode(nvmlDevice handle, unsigned* out) {
  return constant(handle, out, kOn);
}

NVML_EXPORT nvmlReturn nvmlDeviceGetEncoderUtilization(nvmlDevice handle, unsigned* utilisation, unsigned* period_us) {
  return no_codec(handle, utilisation, period_us);
}

NVML_EXPORT nvmlReturn nvmlDeviceGetDecoderUtilization(nvmlDevice handle, unsigned* utilisation, unsigned* period_us) {
  return no_codec(handle, utilisation, period_us);
}
