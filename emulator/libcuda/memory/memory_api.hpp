// The driver's binary interface for memory that is more than cuMemAlloc: virtual memory, sharing between processes and
// devices. Own declarations, as in driver_api.hpp.
#pragma once

#include "libcuda/driver/driver_api.hpp"

using CUmemGenericAllocationHandle = unsigned long long;

enum CUmemLocationType : int {
  CU_MEM_LOCATION_TYPE_INVALID = 0,
  CU_MEM_LOCATION_TYPE_DEVICE = 1,
  CU_MEM_LOCATION_TYPE_HOST = 2,
  CU_MEM_LOCATION_TYPE_HOST_NUMA = 3,
  CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT = 4,
};

struct CUmemLocation {
  CUmemLocationType type;
  int id;
};

inline constexpr int CU_MEM_ALLOCATION_TYPE_PINNED = 1;
inline constexpr int CU_MEM_ALLOCATION_TYPE_MANAGED = 2;  // of pools, from CUDA 13.0 on
inline constexpr int CU_MEM_HANDLE_TYPE_NONE = 0;
inline constexpr int CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1;

struct CUmemAllocationProp {
  int type;
  int requestedHandleTypes;
  CUmemLocation location;
  void* win32HandleMetaData;
  unsigned char compressionType;
  unsigned char gpuDirectRDMACapable;
  unsigned short usage;
  unsigned char reserved[4];
};

inline constexpr unsigned CU_MEM_ACCESS_FLAGS_PROT_NONE = 0;
inline constexpr unsigned CU_MEM_ACCESS_FLAGS_PROT_READ = 1;
inline constexpr unsigned CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3;

struct CUmemAccessDesc {
  CUmemLocation location;
  unsigned flags;
};

struct CUmemPoolProps {
  int allocType;
  int handleTypes;
  CUmemLocation location;
  void* win32SecurityAttributes;
  size_t maxSize;
  unsigned short usage;
  unsigned char reserved[54];
};

// The bytes are ours to choose: no other driver reads them.
struct CUipcMemHandle {
  char reserved[64];
};
struct CUipcEventHandle {
  char reserved[64];
};

inline constexpr unsigned CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1;
inline constexpr unsigned CU_EVENT_INTERPROCESS = 4;
inline constexpr unsigned CU_MEM_ATTACH_GLOBAL = 1;
inline constexpr unsigned CU_MEM_ATTACH_HOST = 2;
inline constexpr unsigned CU_MEM_ATTACH_SINGLE = 4;
inline constexpr CUdevice CU_DEVICE_CPU = -1;
inline constexpr CUdevice CU_DEVICE_INVALID = -2;

struct CUDA_MEMCPY3D_PEER {
  size_t srcXInBytes, srcY, srcZ, srcLOD;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  void* srcArray;
  CUcontext srcContext;
  size_t srcPitch, srcHeight;
  size_t dstXInBytes, dstY, dstZ, dstLOD;
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  void* dstArray;
  CUcontext dstContext;
  size_t dstPitch, dstHeight;
  size_t WidthInBytes, Height, Depth;
};

struct CUmemcpyAttributes {
  int srcAccessOrder;
  CUmemLocation srcLocHint, dstLocHint;
  unsigned flags;
};

struct CUextent3D {
  size_t width, height, depth;
};

// A place in memory; an array's handle and offset have the same room.
struct CUmemcpy3DOperand {
  int type;
  union {
    struct {
      CUdeviceptr ptr;
      size_t rowLength, layerHeight;
      CUmemLocation locHint;
    } ptr;
  } op;
};

struct CUDA_MEMCPY3D_BATCH_OP {
  CUmemcpy3DOperand src, dst;
  CUextent3D extent;
  int srcAccessOrder;
  unsigned flags;
};

static_assert(sizeof(CUmemcpyAttributes) == 24 && sizeof(CUDA_MEMCPY3D_BATCH_OP) == 112);
static_assert(sizeof(CUmemAllocationProp) == 32 && offsetof(CUmemAllocationProp, compressionType) == 24);
static_assert(sizeof(CUmemAccessDesc) == 12 && sizeof(CUmemPoolProps) == 88);
static_assert(sizeof(CUDA_MEMCPY3D_PEER) == 200);
