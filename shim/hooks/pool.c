/* Memory in stream order: counted from the call that allocates to the call that frees, whenever the stream gets there. */
#include "memory/allocation.h"
#include "memory/convert.h"
#include "streams/capture.h"
#include "base/handle_map.h"
#include "streams/stream.h"
#include "base/symbols.h"

/* Pool -> where its memory is: ordinal of the GPU + FIRST_GPU, or IN_HOST. A pool that is not in it: the stream's GPU. */
static HANDLE_MAP(pools);
enum { IN_HOST = 1, FIRST_GPU = 2 };

static CUresult learn(CUresult result, const CUmemoryPool *pool, int location_type, int ordinal) {
  if (result == CUDA_SUCCESS)
    handle_map_put(&pools, (uintptr_t)*pool,
                   location_type == CU_MEM_LOCATION_TYPE_DEVICE ? (uintptr_t)ordinal + FIRST_GPU : IN_HOST, 0);
  return result;
}

static CUresult learn_location(CUresult result, const CUmemoryPool *pool, const CUmemLocation *location) {
  return location ? learn(result, pool, location->type, location->id) : result;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
  return learn_location(REAL(cuMemPoolCreate)(pool, properties), pool, properties ? &properties->location : NULL);
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  handle_map_erase(&pools, (uintptr_t)pool);
  return REAL(cuMemPoolDestroy)(pool);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
  return learn(REAL(cuDeviceGetDefaultMemPool)(pool, device), pool, CU_MEM_LOCATION_TYPE_DEVICE, device);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) {
  return learn(REAL(cuDeviceGetMemPool)(pool, device), pool, CU_MEM_LOCATION_TYPE_DEVICE, device);
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, int type) {
  return learn_location(REAL(cuMemGetDefaultMemPool)(pool, location, type), pool, location);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, int type) {
  return learn_location(REAL(cuMemGetMemPool)(pool, location, type), pool, location);
}

/* It goes away with no context: "not associated with any CUDA context" (CUDA manual, cuCtxDestroy; cudaDeviceReset says so, too). */
static struct fikit_place place_of(CUstream stream, CUmemoryPool pool) {
  struct fikit_place place = {fikit_stream_of(stream)->device, NULL};
  const uintptr_t where = pool ? handle_map_get(&pools, (uintptr_t)pool) : 0;
  if (where == IN_HOST)
    place.device = NULL;
  else if (where >= FIRST_GPU)
    place.device = fikit_device_of((CUdevice)(where - FIRST_GPU));
  return place;
}

/* On a capturing stream nothing is allocated or freed, a node of a graph is made: its memory is the graph's (graph.c). */
static bool captured(CUstream stream) {
  return fikit_capture_anywhere() && fikit_stream_captures(stream);
}

#define ALLOCATE(stream, pool, call)                                       \
  do {                                                                     \
    if (captured(stream))                                                  \
      return (call);                                                       \
    FIKIT_ALLOCATE(place_of(stream, pool), bytes, *out, call);             \
  } while (0)

#define FREE(stream, call)      \
  do {                          \
    if (captured(stream))       \
      return (call);            \
    FIKIT_FREE(pointer, call);  \
  } while (0)

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream) {
  ALLOCATE(fikit_legacy(stream), NULL, REAL(cuMemAllocAsync)(out, bytes, stream));
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *out, size_t bytes, CUstream stream) {
  ALLOCATE(fikit_per_thread(stream), NULL, REAL(cuMemAllocAsync_ptsz)(out, bytes, stream));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream) {
  ALLOCATE(fikit_legacy(stream), pool, REAL(cuMemAllocFromPoolAsync)(out, bytes, pool, stream));
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream) {
  ALLOCATE(fikit_per_thread(stream), pool, REAL(cuMemAllocFromPoolAsync_ptsz)(out, bytes, pool, stream));
}

/* Memory of cuMemAlloc may be freed in stream order, too (CUDA programming guide, "Stream Ordered Memory Allocator"); of managed
 * memory nobody says so. */
static CUresult free_in_order(CUdeviceptr pointer, CUstream stream, CUresult (*call)(CUdeviceptr, CUstream), CUstream meant) {
  const uint64_t converted = fikit_converted_take(pointer);
  CUresult result = call(pointer, stream);
  if (converted && result != CUDA_SUCCESS && REAL(cuStreamSynchronize)(meant) == CUDA_SUCCESS)
    result = REAL(cuMemFree_v2)(pointer);
  fikit_converted_freed(pointer, converted, result);
  return result;
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  FREE(fikit_legacy(stream), free_in_order(pointer, stream, REAL(cuMemFreeAsync), fikit_legacy(stream)));
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream) {
  FREE(fikit_per_thread(stream), free_in_order(pointer, stream, REAL(cuMemFreeAsync_ptsz), fikit_per_thread(stream)));
}
