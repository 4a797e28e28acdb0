/* Stream-ordered memory: counted, and moved where it is managed memory, from the call that allocates to the call that frees. Nobody moves it before its stream
 * has come to the allocation (streams/mark.h) nor once it has come to the free (fikit_plan_free). */
#include "gate/first_use.h"
#include "gate/plan_free.h"
#include "memory/allocation.h"
#include "memory/convert.h"
#include "memory/late_free.h"
#include "memory/managed_pool.h"
#include "memory/movable.h"
#include "streams/capture.h"
#include "streams/context_end.h"
#include "streams/idle.h"
#include "streams/mark.h"
#include "base/handle_map.h"
#include "streams/stream.h"
#include "base/symbols.h"

/* Pool -> where its memory is: ordinal of the GPU + FIRST_GPU, or IN_HOST. For other pools: the stream's GPU. */
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

/* On a capturing stream the call makes a node of a graph and allocates nothing: the memory counts as the graph's (graph.c). */
static bool captured(CUstream stream) {
  return fikit_capture_anywhere() && fikit_stream_captures(stream);
}

typedef CUresult from_pool(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream);

/* By cuMemFree, which waits for nobody: the program says that its work is over (CUDA programming guide, "Stream Ordered Memory Allocator"). */
static CUstream freed_at_once(CUdeviceptr at) {
  return fikit_plan_free(at, NULL);
}

static const struct fikit_order in_order = {fikit_mark_passed, fikit_mark_dropped, freed_at_once};

/* Without a mark it is never moved: nobody could say when it is there. */
static void may_move(const struct fikit_place *place, CUdeviceptr pointer, size_t bytes, CUstream stream) {
  struct fikit_mark *mark = fikit_mark(stream);
  if (mark && !fikit_movable_came_in_order(place->device, pointer, bytes, mark, &in_order))
    fikit_mark_dropped(mark);
}

/* The managed pool that stands in for `pool`. Another thread may capture in global mode when it is made, which a driver may count among the calls that a capture does not bear. */
static CUmemoryPool managed_for(CUmemoryPool pool) {
  const int mode = fikit_capture_relax();
  const CUmemoryPool managed = fikit_managed_pool_for(pool);
  fikit_capture_restore(mode);
  return managed;
}

/* From the managed pool that stands in for the GPU's default one. `meant`: the stream, not NULL. False: it must be plain, and nothing is counted. */
static bool convert(const struct fikit_place *place, CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream, CUstream meant,
                    from_pool *call, CUresult *result) {
  const CUmemoryPool managed = out && fikit_converts(place, bytes) ? managed_for(pool) : NULL;
  if (!managed)
    return false;
  *result = CUDA_ERROR_OUT_OF_MEMORY;
  if (!fikit_memory_reserve_movable(place->device, bytes))
    return true;
  *result = call(out, bytes, managed, stream);
  const bool known = *result == CUDA_SUCCESS && fikit_managed_pool_gave(*out);
  if (*result == CUDA_SUCCESS && !known) /* the shim has no memory to remember it by: then plain memory, since the program must not see that it is managed */
    REAL(cuMemFree_v2)(*out);
  if (known) {
    fikit_convert_seen();
    may_move(place, *out, bytes, meant);
  }
  fikit_allocated_movable(place, bytes, known ? *out : 0);
  if (known)
    fikit_first_use_took(place->device, *out, meant);
  return known || *result == CUDA_ERROR_OUT_OF_MEMORY;
}

#define ALLOCATE(meant, pool, call, from)                                                                       \
  do {                                                                                                          \
    CUresult converted_;                                                                                        \
    if (captured(meant))                                                                                        \
      return (call);                                                                                            \
    const struct fikit_place where_ = place_of(meant, pool);                                                    \
    if (convert(&where_, out, bytes, pool, stream, meant, from, &converted_))                                     \
      return converted_;                                                                                        \
    if (!fikit_memory_reserve(where_.device, bytes))                                                            \
      return CUDA_ERROR_OUT_OF_MEMORY;                                                                          \
    const CUresult result_ = (call);                                                                            \
    fikit_allocated_in_order(&where_, bytes, result_ == CUDA_SUCCESS ? *out : 0);                                \
    return result_;                                                                                             \
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

/* ---- frees */

/* By cuMemFree, where that breaks no capture. */
static bool free_now(CUdeviceptr pointer) {
  if (fikit_capture_anywhere() || fikit_context_ends())
    return false;
  const int mode = fikit_capture_relax();
  const CUresult result = REAL(cuMemFree_v2)(pointer);
  fikit_capture_restore(mode);
  return result == CUDA_SUCCESS;
}

static const struct fikit_late_order late_order = {fikit_mark_passed, fikit_mark_dropped, fikit_idle, fikit_idle_context_gone, free_now};

/* The driver's answer about memory that no stream frees; other ones are about the program's own mistakes, or its broken context. */
static bool is_no_order(CUresult result) {
  return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED;
}

static bool free_late(CUdeviceptr pointer, struct fikit_allocation *taken, CUstream meant) {
  const struct fikit_late_free late = {pointer, taken, fikit_stream_of(meant)->context, fikit_mark(meant)};
  const bool kept = fikit_free_late(&late, &late_order);
  if (!kept && late.mark)
    fikit_mark_dropped(late.mark);
  return kept;
}

/* Behind the moves of it that are under way. Memory of the default pool is the program's as it knows it; converted memory (convert.h) is managed
 * memory, which a driver may not free in stream order: then it is freed later (late_free.h), and nobody waits here. So is memory whose first uses were brought in
 * some other stream, which this one need not come behind (gate/first_use.h). */
static CUresult free_in_order(CUdeviceptr pointer, CUstream stream, CUresult (*call)(CUdeviceptr, CUstream), CUstream meant) {
  if (captured(meant))
    return call(pointer, stream);
  struct fikit_allocation *taken = fikit_allocation_take(pointer);
  const bool brought = fikit_movable_was_taken_new(pointer);
  const CUstream behind = fikit_plan_free(pointer, meant);
  const uint64_t converted = fikit_converted_take(pointer);
  if (converted && brought && free_late(pointer, taken, meant))
    return CUDA_SUCCESS;
  const bool of_pool = fikit_managed_pool_take(pointer);
  CUresult result = behind == meant ? call(pointer, stream) : REAL(cuMemFreeAsync)(pointer, behind);
  if (result != CUDA_SUCCESS && behind != meant)
    result = call(pointer, stream);
  if (converted && is_no_order(result) && free_late(pointer, taken, meant))
    return CUDA_SUCCESS;
  fikit_converted_freed(pointer, converted, result);
  if (of_pool && result != CUDA_SUCCESS)
    fikit_managed_pool_gave(pointer);
  fikit_freed(taken, pointer, result == CUDA_SUCCESS);
  return result;
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  return free_in_order(pointer, stream, REAL(cuMemFreeAsync), fikit_legacy(stream));
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream) {
  return free_in_order(pointer, stream, REAL(cuMemFreeAsync_ptsz), fikit_per_thread(stream));
}
