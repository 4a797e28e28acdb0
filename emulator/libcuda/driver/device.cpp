// Devices: how many, who they are, what they say they can do.
#include <cstdio>
#include <cstring>

#include "libcuda/driver/driver.hpp"
#include "libcuda/driver/entry_points.hpp"
#include "device_model/limits.hpp"

using namespace emu;

namespace {

// CUdevice_attribute numbers with a value that is not 0. None is a claim about hardware: they are what programs ask for
// before they launch anything, with the limits of the compute capability that the configuration names.
struct Attribute {
  int number;
  int value;
};
constexpr Attribute kAttributes[] = {
    {1, limits::kThreadsPerBlock},
    {2, limits::kBlock[0]},
    {3, limits::kBlock[1]},
    {4, limits::kBlock[2]},
    {5, limits::kGrid[0]},
    {6, limits::kGrid[1]},
    {7, limits::kGrid[2]},
    {8, limits::kSharedPerBlock},
    {9, 65536},                                     // constant memory
    {10, limits::kWarp},
    {11, 2147483647},                               // max pitch
    {12, limits::kRegistersPerMultiprocessor},      // registers per block
    {13, 1500000},                                  // clock rate in kHz
    {14, 512},                                      // texture alignment
    {15, 1},                                        // gpu overlap
    {16, limits::kMultiprocessors},
    {19, 1},                                        // can map host memory
    {31, 1},                                        // concurrent kernels
    {36, 1000000},                                  // memory clock rate in kHz
    {37, 4096},                                     // memory bus width
    {38, 32 << 20},                                 // L2 cache bytes
    {39, limits::kThreadsPerMultiprocessor},
    {40, 2},                                        // copy engines
    {41, 1},                                        // unified addressing
    {51, 32},                                       // texture pitch alignment
    {78, 1},                                        // stream priorities
    {79, 1},                                        // global L1 cache
    {80, 1},                                        // local L1 cache
    {81, limits::kSharedPerMultiprocessor},
    {82, limits::kRegistersPerMultiprocessor},
    {83, 1},                                        // managed memory
    {89, 1},                                        // concurrent managed access
    {90, 1},                                        // compute preemption
    {91, 1},                                        // host pointer for registered memory
    {92, 1},          {93, 1},    {94, 1},          // stream memory operations: 32 bit, 64 bit, wait for NOR
    {95, 1},                                        // cooperative launch
    {97, limits::kSharedPerBlockOptIn},
    {99, 1},                                        // host registration
    {102, 1},                                       // virtual memory management
    {103, 1},                                       // memory handles as file descriptors
    {106, limits::kBlocksPerMultiprocessor},
    {111, limits::kReservedSharedPerBlock},
    {115, 1},                                       // memory pools
    {120, 1},                                       // launches of clusters
    {122, 1},         {123, 1},                     // stream memory operations of the second form: 64 bit, NOR
    {125, 1},                                       // interprocess events
};

Device& device_of(CUdevice ordinal) { return driver().device(ordinal); }

}  // namespace

// The faults become known here, so this call meets them at its end.
CU_EXPORT CUresult cuInit(unsigned flags) {
  const CUresult result = flags == 0 ? initialise_driver() : CUDA_ERROR_INVALID_VALUE;
  return result == CUDA_SUCCESS ? api_anywhere([] {}) : result;
}

CU_EXPORT CUresult cuDriverGetVersion(int* version) {
  return api_anywhere([&] {
    require(version != nullptr, CUDA_ERROR_INVALID_VALUE);
    *version = kDriverVersion;
  });
}

CU_EXPORT CUresult cuDeviceGet(CUdevice* out, int ordinal) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = device_of(ordinal).ordinal;
  });
}

CU_EXPORT CUresult cuDeviceGetCount(int* out) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = driver().count();
  });
}

CU_EXPORT CUresult cuDeviceGetName(char* out, int bytes, CUdevice ordinal) {
  return api([&] {
    const Device& device = device_of(ordinal);
    require(out != nullptr && bytes > 0, CUDA_ERROR_INVALID_VALUE);
    snprintf(out, static_cast<size_t>(bytes), "%s", device.entry.name.c_str());
  });
}

CU_EXPORT CUresult cuDeviceGetUuid(CUuuid* out, CUdevice ordinal) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = device_of(ordinal).uuid;
  });
}

CU_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* out, CUdevice ordinal) { return cuDeviceGetUuid(out, ordinal); }

CU_EXPORT CUresult cuDeviceTotalMem_v2(size_t* out, CUdevice ordinal) {
  return api([&] {
    const Device& device = device_of(ordinal);
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = device.entry.memory_bytes;
  });
}

CU_EXPORT CUresult cuDeviceGetAttribute(int* out, int attribute, CUdevice ordinal) {
  return api([&] {
    const Device& device = device_of(ordinal);
    require(out != nullptr && attribute > 0 && attribute < 200, CUDA_ERROR_INVALID_VALUE);
    const Config& config = driver().config();
    constexpr int kPciBus = 33;
    constexpr int kMajor = 75;
    constexpr int kMinor = 76;
    constexpr int kMpsEnabled = 133;
    *out = attribute == kPciBus  ? device.entry.gpu + 1
           : attribute == kMajor ? config.compute_major
           : attribute == kMinor ? config.compute_minor
           : attribute == kMpsEnabled ? static_cast<int>(driver().mps().is_client())
                                 : 0;
    for (const Attribute& known : kAttributes) {
      if (known.number == attribute) *out = known.value;
    }
  });
}

CU_EXPORT CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice ordinal) {
  return api([&] {
    device_of(ordinal);
    given(major) = driver().config().compute_major;
    given(minor) = driver().config().compute_minor;
  });
}

CU_EXPORT CUresult cuDeviceGetPCIBusId(char* out, int bytes, CUdevice ordinal) {
  return api([&] {
    require(out != nullptr && bytes > 0, CUDA_ERROR_INVALID_VALUE);
    snprintf(out, static_cast<size_t>(bytes), "0000:%02X:00.0", device_of(ordinal).entry.gpu + 1);
  });
}

// Takes a whole address and one without the domain or the function (CUDA manual).
CU_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice* out, const char* text) {
  return api([&] {
    require(out != nullptr && text != nullptr, CUDA_ERROR_INVALID_VALUE);
    const bool address = text[strspn(text, "0123456789abcdefABCDEF:.")] == '\0' && strchr(text, ':') != nullptr;
    require(address, CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < driver().count(); ++i) {
      char bus[8];
      snprintf(bus, sizeof bus, "%02X:00", device_of(i).entry.gpu + 1);
      for (const char* domain : {"", "0000:"}) {
        for (const char* function : {"", ".0"}) {
          if (strcasecmp(text, (std::string(domain) + bus + function).c_str()) != 0) continue;
          *out = i;
          return CUDA_SUCCESS;
        }
      }
    }
    return CUDA_ERROR_INVALID_DEVICE;
  });
}
