// The part of NVML's binary interface that the emulator implements, in our own declarations. Names, numbers and layouts
// are facts of the interface; nothing here comes from a header of NVIDIA's.
#pragma once

#include <cstdint>

#define NVML_EXPORT extern "C" __attribute__((visibility("default")))

enum nvmlReturn : int {
  NVML_SUCCESS = 0,
  NVML_ERROR_UNINITIALIZED = 1,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_DRIVER_NOT_LOADED = 9,
  NVML_ERROR_GPU_IS_LOST = 15,
  NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
  NVML_ERROR_UNKNOWN = 999,
};

using nvmlDevice = const struct nvmlDevice_st*;

struct nvmlPciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];
};

struct nvmlMemory {
  uint64_t total;
  uint64_t free;
  uint64_t used;
};

struct nvmlMemory_v2 {
  unsigned version;  // size | number << 24
  uint64_t total;
  uint64_t reserved;
  uint64_t free;
  uint64_t used;
};

struct nvmlUtilization {  // percent
  unsigned gpu;
  unsigned memory;
};

struct nvmlProcessInfo {
  unsigned pid;
  uint64_t used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct nvmlProcessUtilizationSample {  // percent; time since the epoch
  unsigned pid;
  uint64_t time_us;
  unsigned sm;
  unsigned memory;
  unsigned encoder;
  unsigned decoder;
};

struct nvmlTemperature_v1 {
  unsigned version;
  unsigned sensor;
  int celsius;
};
