// Devices: how many, who they are, what they say they can do.
#include <cstdio>
#include <cstring>

#include "driver.hpp"

using namespace emu;

namespace {

constexpr int kDriverVersion = 13000;

// CUdevice_attribute numbers with a value that is not 0. None is a claim about hardware: they are what programs ask for
// before they launch anything, with the limits of the compute capability that the configuration names.
struct Attribute {
  int number;
  int value;
};
constexpr Attribute kAttributes[] = {
    {1, 1024},                                      // max threads per block
    {2, 1024},                                      // max block x, y, z
    {3, 1024},        {4, 64},    {5, 2147483647},  // max grid x, y, z
    {6, 65535},       {7, 65535}, {8, 49152},       // shared memory per block
    {9, 65536},                                     // constant memory
    {10, 32},                                       // warp size
    {11, 2147483647},                               // max pitch
    {12, 65536},                                    // registers per block
    {13, 1500000},                                  // clock rate in kHz
    {14, 512},                                      // texture alignment
    {15, 1},                                        // gpu overlap
    {16, 132},                                      // multiprocessors
    {19, 1},                                        // can map host memory
    {31, 1},                                        // concurrent kernels
    {36, 1000000},                                  // memory clock rate in kHz
    {37, 4096},                                     // memory bus width
    {38, 32 << 20},                                 // L2 cache bytes
    {39, 2048},                                     // threads per multiprocessor
    {40, 2},                                        // copy engines
    {41, 1},                                        // unified addressing
    {51, 32},                                       // texture pitch alignment
    {78, 1},                                        // stream priorities
    {79, 1},                                        // global L1 cache
    {80, 1},                                        // local L1 cache
    {81, 233472},                                   // shared memory per multiprocessor
    {82, 65536},                                    // registers per multiprocessor
    {83, 1},                                        // managed memory
    {89, 1},                                        // concurrent managed access
    {90, 1},                                        // compute preemption
    {91, 1},                                        // host pointer for registered memory
    {92, 1},          {93, 1},    {94, 1},          // stream memory operations: 32 bit, 64 bit, wait for NOR
    {95, 1},                                        // cooperative launch
    {97, 232448},                                   // shared memory per block, opt-in
    {99, 1},                                        // host registration
    {106, 32},                                      // blocks per multiprocessor
    {111, 1024},                                    // reserved shared memory per block
    {115, 1},                                       // memory pools
    {122, 1},         {123, 1},                     // stream memory operations of the second form: 64 bit, NOR
};

Device& device_of(CUdevice ordinal) { return driver().device(ordinal); }

}  // namespace

CU_EXPORT CUresult cuInit(unsigned flags) { return flags == 0 ? initialise_driver() : CUDA_ERROR_INVALID_VALUE; }

CU_EXPORT CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
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
    device_of(ordinal);
    require(out != nullptr && bytes > 0, CUDA_ERROR_INVALID_VALUE);
    snprintf(out, static_cast<size_t>(bytes), "%s", driver().config().name.c_str());
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
    device_of(ordinal);
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = driver().config().memory_bytes;
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
    *out = attribute == kPciBus  ? device.index + 1
           : attribute == kMajor ? config.compute_major
           : attribute == kMinor ? config.compute_minor
                                 : 0;
    for (const Attribute& known : kAttributes) {
      if (known.number == attribute) *out = known.value;
    }
  });
}

CU_EXPORT CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice ordinal) {
  return api([&] {
    device_of(ordinal);
    *major = driver().config().compute_major;
    *minor = driver().config().compute_minor;
  });
}

CU_EXPORT CUresult cuDeviceGetPCIBusId(char* out, int bytes, CUdevice ordinal) {
  return api([&] {
    require(out != nullptr && bytes > 0, CUDA_ERROR_INVALID_VALUE);
    snprintf(out, static_cast<size_t>(bytes), "0000:%02X:00.0", device_of(ordinal).index + 1);
  });
}

CU_EXPORT CUresult cuDeviceCanAccessPeer(int* out, CUdevice ordinal, CUdevice peer) {
  return api([&] { *out = &device_of(ordinal) != &device_of(peer) ? 1 : 0; });
}
