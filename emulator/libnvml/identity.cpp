// Who the devices are: handles and what never changes.
#include <cctype>
#include <cstdio>
#include <string_view>

#include "library.hpp"

using namespace emu;

namespace {

constexpr size_t kLegacyDomain = 4;  // digits that the old form of a bus id has less

bool same_text(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::toupper(x) == std::toupper(y);
  });
}

template <typename Matches>
nvmlReturn find(nvmlDevice* out, const char* wanted, Matches&& matches) {
  return api([&](const Library& lib) {
    require(wanted != nullptr && out != nullptr, NVML_ERROR_INVALID_ARGUMENT);
    for (const auto* all : {&lib.devices(), &lib.instances()}) {
      for (const MonitoredDevice& device : *all) {
        if (!matches(device)) continue;
        *out = Library::handle(device);
        return;
      }
    }
    throw NvmlFailure{NVML_ERROR_NOT_FOUND};
  });
}

}  // namespace

NVML_EXPORT nvmlReturn nvmlDeviceGetCount_v2(unsigned* out) {
  return api([&](const Library& lib) { give(out, static_cast<unsigned>(lib.devices().size())); });
}

NVML_EXPORT nvmlReturn nvmlDeviceGetCount(unsigned* out) { return nvmlDeviceGetCount_v2(out); }

NVML_EXPORT nvmlReturn nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice* out) {
  return api([&](const Library& lib) {
    require(index < lib.devices().size(), NVML_ERROR_INVALID_ARGUMENT);
    give(out, Library::handle(lib.devices()[index]));
  });
}

NVML_EXPORT nvmlReturn nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice* out) {
  return nvmlDeviceGetHandleByIndex_v2(index, out);
}

NVML_EXPORT nvmlReturn nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice* out) {
  return find(out, uuid, [&](const MonitoredDevice& device) { return same_text(device.uuid, uuid); });
}

NVML_EXPORT nvmlReturn nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice* out) {
  return find(out, bus_id, [&](const MonitoredDevice& device) {
    return same_text(device.bus_id, bus_id) || same_text(device.bus_id.substr(kLegacyDomain), bus_id);
  });
}

NVML_EXPORT nvmlReturn nvmlDeviceGetHandleByPciBusId(const char* bus_id, nvmlDevice* out) {
  return nvmlDeviceGetHandleByPciBusId_v2(bus_id, out);
}

NVML_EXPORT nvmlReturn nvmlDeviceGetName(nvmlDevice handle, char* out, unsigned size) {
  return api(handle, [&](const Library&, const MonitoredDevice& device) { give_text(out, size, device.name); });
}

NVML_EXPORT nvmlReturn nvmlDeviceGetUUID(nvmlDevice handle, char* out, unsigned size) {
  return api(handle, [&](const Library&, const MonitoredDevice& device) { give_text(out, size, device.uuid); });
}

NVML_EXPORT nvmlReturn nvmlDeviceGetIndex(nvmlDevice handle, unsigned* out) {
  return api(handle, [&](const Library&, const MonitoredDevice& device) {
    give(out, static_cast<unsigned>(device.index));
  });
}

NVML_EXPORT nvmlReturn nvmlDeviceGetMinorNumber(nvmlDevice handle, unsigned* out) {
  return nvmlDeviceGetIndex(handle, out);
}

NVML_EXPORT nvmlReturn nvmlDeviceGetPciInfo_v3(nvmlDevice handle, nvmlPciInfo* out) {
  return api(handle, [&](const Library&, const MonitoredDevice& device) {
    // The vendor and device numbers stay 0: there is no such device on any bus.
    nvmlPciInfo info{};
    info.bus = static_cast<unsigned>(device.gpu + 1);
    snprintf(info.bus_id, sizeof info.bus_id, "%s", device.bus_id.c_str());
    snprintf(info.bus_id_legacy, sizeof info.bus_id_legacy, "%s", device.bus_id.c_str() + kLegacyDomain);
    give(out, info);
  });
}

NVML_EXPORT nvmlReturn nvmlDeviceGetCudaComputeCapability(nvmlDevice handle, int* major, int* minor) {
  return api(handle, [&](const Library& lib, const MonitoredDevice&) {
    give(major, lib.config().compute_major);
    give(minor, lib.config().compute_minor);
  });
}
