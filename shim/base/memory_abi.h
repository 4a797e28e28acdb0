/* The driver's calls about memory: our own declarations, as in cuda_abi.h. */
#ifndef FIKIT_SHIM_MEMORY_ABI_H
#define FIKIT_SHIM_MEMORY_ABI_H

#include "base/cuda_abi.h"

typedef unsigned CUdeviceptr_v1; /* of CUDA 2 and 3.1, which could address 4 GiB */
typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef unsigned long long CUmemGenericAllocationHandle;

enum { CUDA_ERROR_OUT_OF_MEMORY = 2 };
enum { CU_MEM_LOCATION_TYPE_DEVICE = 1, CU_MEM_LOCATION_TYPE_HOST = 2, CU_DEVICE_CPU = -1 };
enum { CUDA_ARRAY3D_SPARSE = 0x40, CUDA_ARRAY3D_DEFERRED_MAPPING = 0x80 };

typedef struct {
  int type, id;
} CUmemLocation;

/* The beginning of the real structures: what the shim reads. */
typedef struct {
  int type, handle_types;
  CUmemLocation location;
} CUmemPoolProps, CUmemAllocationProp;

/* Source and destination, 11 words each, of which memory/places.c reads where in memory they are; CUDA_MEMCPY3D_PEER is as large, with a context each
 * in a word that is not read. */
typedef struct {
  uint64_t from[11], to[11];
  size_t width, height, depth;
} CUDA_MEMCPY3D;

/* One end of a copy among several: memory (type 1), or an array. */
typedef struct {
  int type;
  union {
    struct {
      CUdeviceptr at;
      size_t row, rows; /* 0: as the copy's */
      CUmemLocation hint;
    } memory;
    struct {
      CUarray array;
      size_t x, y, z;
    } array;
  } of;
} CUmemcpy3DOperand;
enum { CU_MEMCPY_OPERAND_TYPE_POINTER = 1 };

typedef struct {
  CUmemcpy3DOperand from, to;
  size_t width, height, depth;
  int order;
  unsigned flags;
} CUDA_MEMCPY3D_BATCH_OP;

typedef struct {
  size_t width, height;
  int format;
  unsigned channels;
} CUDA_ARRAY_DESCRIPTOR;

typedef struct {
  unsigned width, height;
  int format;
  unsigned channels;
} CUDA_ARRAY_DESCRIPTOR_v1;

typedef struct {
  size_t width, height, depth;
  int format;
  unsigned channels, flags;
} CUDA_ARRAY3D_DESCRIPTOR;

typedef struct {
  unsigned width, height, depth;
  int format;
  unsigned channels, flags;
} CUDA_ARRAY3D_DESCRIPTOR_v1;

/* Linear memory. */
FIKIT_API cuMemAlloc(CUdeviceptr_v1 *out, unsigned bytes);
FIKIT_API cuMemAlloc_v2(CUdeviceptr *out, size_t bytes);
FIKIT_API cuMemAllocPitch(CUdeviceptr_v1 *out, unsigned *pitch, unsigned width, unsigned height, unsigned element);
FIKIT_API cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element);
FIKIT_API cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags);
FIKIT_API cuMemFree(CUdeviceptr_v1 pointer);
FIKIT_API cuMemFree_v2(CUdeviceptr pointer);

/* Managed memory that goes to the GPU or the host; the second form since CUDA 12.2. */
FIKIT_API cuMemPrefetchAsync(CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream stream);
FIKIT_API cuMemPrefetchAsync_ptsz(CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream stream);
FIKIT_API cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t bytes, CUmemLocation location, unsigned flags, CUstream stream);
FIKIT_API cuMemPrefetchAsync_v2_ptsz(CUdeviceptr pointer, size_t bytes, CUmemLocation location, unsigned flags, CUstream stream);

/* In stream order, and pools. */
FIKIT_API cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream);
FIKIT_API cuMemAllocAsync_ptsz(CUdeviceptr *out, size_t bytes, CUstream stream);
FIKIT_API cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream);
FIKIT_API cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream);
FIKIT_API cuMemFreeAsync(CUdeviceptr pointer, CUstream stream);
FIKIT_API cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream);
FIKIT_API cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties);
FIKIT_API cuMemPoolDestroy(CUmemoryPool pool);
FIKIT_API cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value);
FIKIT_API cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value);
FIKIT_API cuMemPoolTrimTo(CUmemoryPool pool, size_t keep);
FIKIT_API cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device);
FIKIT_API cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device);
FIKIT_API cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, int type);
FIKIT_API cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, int type);

/* Arrays. */
FIKIT_API cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *shape);
FIKIT_API cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape);
FIKIT_API cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *shape);
FIKIT_API cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape);
FIKIT_API cuArrayDestroy(CUarray array);
FIKIT_API cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels);
FIKIT_API cuMipmappedArrayDestroy(CUmipmappedArray array);

/* Physical memory and its mappings. */
FIKIT_API cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                      unsigned long long flags);
FIKIT_API cuMemRelease(CUmemGenericAllocationHandle handle);
FIKIT_API cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address);
FIKIT_API cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                   unsigned long long flags);
FIKIT_API cuMemUnmap(CUdeviceptr address, size_t bytes);

/* How much there is. */
FIKIT_API cuMemGetInfo(unsigned *free_bytes, unsigned *total_bytes);
FIKIT_API cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
FIKIT_API cuDeviceTotalMem(unsigned *bytes, CUdevice device);

/* What a pointer is. */
FIKIT_API cuPointerGetAttributes(unsigned count, int *attributes, void **values, CUdeviceptr pointer);
FIKIT_API cuIpcGetMemHandle(void *handle, CUdeviceptr pointer);

/* Made by the shim, passed on untouched when the program makes them. */
FIKIT_API cuDeviceGetCount(int *count);
FIKIT_API cuMemAdvise(CUdeviceptr pointer, size_t bytes, int advice, CUdevice device);
FIKIT_API cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer);

/* Copies of boxes, between contexts, several at once, and with attributes, which are the driver's business. */
FIKIT_API cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy);
FIKIT_API cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *copy);
FIKIT_API cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream);
FIKIT_API cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *copy, CUstream stream);
FIKIT_API cuMemcpy3DPeer(const CUDA_MEMCPY3D *copy);
FIKIT_API cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D *copy);
FIKIT_API cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D *copy, CUstream stream);
FIKIT_API cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D *copy, CUstream stream);
FIKIT_API cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes);
FIKIT_API cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes);
FIKIT_API cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream);
FIKIT_API cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream
                                 stream);
FIKIT_API cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, void *attributes, size_t *firsts, size_t
                             entries, size_t *failed, CUstream stream);
FIKIT_API cuMemcpyBatchAsync_ptsz(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, void *attributes, size_t *firsts, size_t
                                  entries, size_t *failed, CUstream stream);
FIKIT_API cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, void *attributes, size_t *firsts, size_t
                                entries, CUstream stream);
FIKIT_API cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, void *attributes, size_t *firsts,
                                     size_t entries, CUstream stream);
FIKIT_API cuMemcpyWithAttributesAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, void *attributes, CUstream stream);
FIKIT_API cuMemcpyWithAttributesAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, void *attributes, CUstream stream);
FIKIT_API cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, size_t *failed, unsigned long long flags, CUstream stream);
FIKIT_API cuMemcpy3DBatchAsync_ptsz(size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, size_t *failed, unsigned long long flags, CUstream
                                    stream);
FIKIT_API cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, unsigned long long flags, CUstream stream);
FIKIT_API cuMemcpy3DBatchAsync_v2_ptsz(size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, unsigned long long flags, CUstream stream);
FIKIT_API cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *copy, unsigned long long flags, CUstream stream);
FIKIT_API cuMemcpy3DWithAttributesAsync_ptsz(CUDA_MEMCPY3D_BATCH_OP *copy, unsigned long long flags, CUstream stream);

/* To arrays and from them. */
FIKIT_API cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes);
FIKIT_API cuMemcpyAtoA_v2_ptds(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes);
FIKIT_API cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t bytes);
FIKIT_API cuMemcpyAtoD_v2_ptds(CUdeviceptr to, CUarray from, size_t offset, size_t bytes);
FIKIT_API cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t bytes);
FIKIT_API cuMemcpyDtoA_v2_ptds(CUarray to, size_t offset, CUdeviceptr from, size_t bytes);
FIKIT_API cuMemcpyAtoH_v2(void *to, CUarray from, size_t offset, size_t bytes);
FIKIT_API cuMemcpyAtoH_v2_ptds(void *to, CUarray from, size_t offset, size_t bytes);
FIKIT_API cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t offset, size_t bytes, CUstream stream);
FIKIT_API cuMemcpyAtoHAsync_v2_ptsz(void *to, CUarray from, size_t offset, size_t bytes, CUstream stream);
FIKIT_API cuMemcpyHtoA_v2(CUarray to, size_t offset, const void *from, size_t bytes);
FIKIT_API cuMemcpyHtoA_v2_ptds(CUarray to, size_t offset, const void *from, size_t bytes);
FIKIT_API cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream);
FIKIT_API cuMemcpyHtoAAsync_v2_ptsz(CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream);

/* Several pieces of managed memory that go to the GPU or the host, and compressed memory. */
FIKIT_API cuMemPrefetchBatchAsync(CUdeviceptr *pointers, size_t *sizes, size_t count, CUmemLocation *locations, size_t *firsts, size_t
                                  entries, unsigned long long flags, CUstream stream);
FIKIT_API cuMemPrefetchBatchAsync_ptsz(CUdeviceptr *pointers, size_t *sizes, size_t count, CUmemLocation *locations, size_t *firsts, size_t
                                       entries, unsigned long long flags, CUstream stream);
FIKIT_API cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *pointers, size_t *sizes, size_t count, CUmemLocation *locations, size_t *firsts,
                                            size_t entries, unsigned long long flags, CUstream stream);
FIKIT_API cuMemDiscardAndPrefetchBatchAsync_ptsz(CUdeviceptr *pointers, size_t *sizes, size_t count, CUmemLocation *locations, size_t
                                                 *firsts, size_t entries, unsigned long long flags, CUstream stream);
FIKIT_API cuMemBatchDecompressAsync(void *pieces, size_t count, unsigned flags, size_t *failed, CUstream stream);
FIKIT_API cuMemBatchDecompressAsync_ptsz(void *pieces, size_t count, unsigned flags, size_t *failed, CUstream stream);

#endif
