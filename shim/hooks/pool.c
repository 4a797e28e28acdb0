/* Memory in stream order: counted from the call that allocates to the call that frees, whenever the stream gets there. */
#include "memory/allocation.h"
#include "memory/convert.h"
#include "memory/managed_pool.h"
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

typedef CUresult from_pool(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream);

/* From the managed pool that stands in for the GPU's default one. False: it must be plain, and nothing is counted. */
static bool convert(const struct fikit_place *place, CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream, from_pool *call,
                    CUresult *result) {
  const CUmemoryPool managed = out && fikit_converts(place, bytes) ? fikit_managed_pool_for(pool) : NULL;
  if (!managed)
    return false;
  *result = CUDA_ERROR_OUT_OF_MEMORY;
  if (!fikit_memory_reserve_movable(place->device, bytes))
    return true;
  *result = call(out, bytes, managed, stream);
  const bool known = *result == CUDA_SUCCESS && fikit_managed_pool_gave(*out);
  if (*result == CUDA_SUCCESS && !known) /* memory of ours is short: better plain than managed and looking so */
    REAL(cuMemFree_v2)(*out);
  if (known)
    fikit_convert_seen();
  fikit_allocated_movable(place, bytes, known ? *out : 0);
  return known || *result == CUDA_ERROR_OUT_OF_MEMORY;
}

#define ALLOCATE(meant, pool, call, from)                                                                       \
  do {                                                                                                          \
    CUresult converted_;                                                                                        \
    if (captured(meant))                                                                                        \
      return (call);                                                                                            \
    const struct fikit_place where_ = place_of(meant, pool);                                                    \
    if (convert(&where_, out, bytes, pool, stream, from, &converted_))                                          \
      return converted_;                                                                                        \
    FIKIT_ALLOCATE(where_, bytes, *out, call);                                                                  \
  } while (0)

#define FREE(stream, call)      \
  do {                          \
    if (captured(stream))       \
      return (call);            \
    FIKIT_FREE(pointer, call);  \
  } while (0)

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream) {
  ALLOCATE(fikit_legacy(stream), NULL, REAL(cuMemAllocAsync)(out, bytes, stream), REAL(cuMemAllocFromPoolAsync));
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *out, size_t bytes, CUstream stream) {
  ALLOCATE(fikit_per_thread(stream), NULL, REAL(cuMemAllocAsync_ptsz)(out, bytes, stream), REAL(cuMemAllocFromPoolAsync_ptsz));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream) {
  ALLOCATE(fikit_legacy(stream), pool, REAL(cuMemAllocFromPoolAsync)(out, bytes, pool, stream), REAL(cuMemAllocFromPoolAsync));
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream) {
  ALLOCATE(fikit_per_thread(stream), pool, REAL(cuMemAllocFromPoolAsync_ptsz)(out, bytes, pool, stream), REAL(cuMemAllocFromPoolAsync_ptsz));
}

/* Memory of cuMemAlloc may be freed in stream order, too (CUDA programming guide, "Stream Ordered Memory Allocator"); of managed
 * memory nobody says so. */
static CUresult free_in_order(CUdeviceptr pointer, CUstream stream, CUresult (*call)(CUdeviceptr, CUstream), CUstream meant) {
  const uint64_t converted = fikit_converted_take(pointer);
  const bool of_pool = fikit_managed_pool_take(pointer);
  CUresult result = call(pointer, stream);
  if (converted && result != CUDA_SUCCESS && REAL(cuStreamSynchronize)(meant) == CUDA_SUCCESS)
    result = REAL(cuMemFree_v2)(pointer);
  fikit_converted_freed(pointer, converted, result);
  if (of_pool && result != CUDA_SUCCESS)
    fikit_managed_pool_gave(pointer);
  return result;
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  FREE(fikit_legacy(stream), free_in_order(pointer, stream, REAL(cuMemFreeAsync), fikit_legacy(stream)));
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream) {
  FREE(fikit_per_thread(stream), free_in_order(pointer, stream, REAL(cuMemFreeAsync_ptsz), fikit_per_thread(stream)));
}
