#include "memory/allocation.h"
#include "memory/convert.h"
#include "memory/device_memory.h"
#include "memory/extents.h"
#include "memory/late_free.h"
#include "memory/managed_pool.h"
#include "memory/movable.h"
#include "base/handle_map.h"
#include "base/symbols.h"

#include <stdlib.h>

struct fikit_allocation {
  struct fikit_place place;
  uint64_t bytes;
  bool movable;
  bool linear;   /* the handle is its address, */
  bool in_order; /* and so is that of memory in stream order */
};

/* Pointer or array -> struct fikit_allocation; owner: the context. */
static HANDLE_MAP(allocations);

struct fikit_place fikit_place_current(void) {
  struct fikit_place place;
  place.device = fikit_device_current(&place.context);
  return place;
}

/* Not managed memory, which may be the host's at the moment. */
static bool is_device_memory(const struct fikit_allocation *allocation) {
  return allocation->in_order || (allocation->linear && !allocation->movable);
}

static void uncount(const struct fikit_allocation *allocation) {
  if (allocation->movable)
    fikit_memory_return_movable(allocation->place.device, allocation->bytes);
  else
    fikit_memory_return(allocation->place.device, allocation->bytes);
}

static void give_back(struct fikit_allocation *allocation) {
  uncount(allocation);
  free(allocation);
}

/* What is there already has gone with its context, which the thread that destroyed that has yet to say; the driver gives the same handle to another one. */
static bool remember(struct fikit_allocation *allocation, uintptr_t handle) {
  struct fikit_allocation *gone = (void *)handle_map_take(&allocations, handle);
  if (gone)
    give_back(gone);
  if (!handle_map_put(&allocations, handle, (uintptr_t)allocation, (uintptr_t)allocation->place.context))
    return false;
  if (allocation->linear)
    fikit_extent_add(allocation->place.device, allocation->place.context, handle, allocation->bytes);
  if (is_device_memory(allocation))
    fikit_device_memory_add(allocation->place.context, handle, allocation->bytes);
  return true;
}

/* What cannot be remembered is not counted either: it would never be given back. */
static void allocated(const struct fikit_allocation *made, uintptr_t handle) {
  if (!made->place.device)
    return;
  struct fikit_allocation *allocation = handle ? malloc(sizeof *allocation) : NULL;
  if (allocation) {
    *allocation = *made;
    if (remember(allocation, handle)) {
      fikit_memory_kept(made->place.device);
      return;
    }
  }
  free(allocation);
  uncount(made);
}

void fikit_allocated(const struct fikit_place *place, uint64_t bytes, uintptr_t handle) {
  allocated(&(struct fikit_allocation){*place, bytes, false, false, false}, handle);
}

void fikit_allocated_in_order(const struct fikit_place *place, uint64_t bytes, uintptr_t handle) {
  allocated(&(struct fikit_allocation){*place, bytes, false, false, true}, handle);
}

void fikit_allocated_movable(const struct fikit_place *place, uint64_t bytes, uintptr_t handle) {
  allocated(&(struct fikit_allocation){*place, bytes, true, true, false}, handle);
}

static void allocated_linear(const struct fikit_place *place, uint64_t bytes, uintptr_t handle) {
  allocated(&(struct fikit_allocation){*place, bytes, false, true, false}, handle);
}

struct fikit_allocation *fikit_allocation_take(uintptr_t handle) {
  struct fikit_allocation *taken = (void *)handle_map_take(&allocations, handle);
  if (taken && taken->linear)
    fikit_extent_remove(handle);
  if (taken && is_device_memory(taken))
    fikit_device_memory_remove(handle);
  return taken;
}

CUcontext fikit_allocation_context(const struct fikit_allocation *taken) {
  return taken ? taken->place.context : NULL;
}

void fikit_freed(struct fikit_allocation *taken, uintptr_t handle, bool freed) {
  if (taken && (freed || !remember(taken, handle)))
    give_back(taken);
}

static void went_with_its_context(uintptr_t allocation) {
  give_back((struct fikit_allocation *)allocation);
}

void fikit_allocation_context_gone(CUcontext context) {
  handle_map_take_owner(&allocations, (uintptr_t)context, went_with_its_context);
  fikit_extents_context_gone(context);
  fikit_device_memory_context_gone(context);
}

void fikit_allocation_forget_all(void) {
  handle_map_forget_all(&allocations);
  fikit_extents_forget_all();
  fikit_device_memory_forget_all();
}

/* ---- linear memory */

CUresult cuMemAlloc(CUdeviceptr_v1 *out, unsigned bytes) {
  FIKIT_ALLOCATE(fikit_place_current(), bytes, *out, REAL(cuMemAlloc)(out, bytes));
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
  const struct fikit_place place = fikit_place_current();
  CUresult result;
  fikit_late_frees_look();
  if (fikit_converts(&place, bytes) && fikit_convert(&place, out, bytes, &result))
    return result;
  if (!fikit_memory_reserve(place.device, bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  result = REAL(cuMemAlloc_v2)(out, bytes);
  allocated_linear(&place, bytes, result == CUDA_SUCCESS ? *out : 0);
  return result;
}

/* Counted against the GPU whose context allocates it, wherever its pages are at the moment. */
CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags) {
  const struct fikit_place place = fikit_place_current();
  if (!fikit_memory_reserve_movable(place.device, bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = REAL(cuMemAllocManaged)(out, bytes, flags);
  fikit_allocated_movable(&place, bytes, result == CUDA_SUCCESS ? *out : 0);
  return result;
}

CUresult cuMemFree(CUdeviceptr_v1 pointer) {
  FIKIT_FREE(pointer, REAL(cuMemFree)(pointer));
}

static CUresult free_behind(CUdeviceptr pointer, CUstream stream) {
  const bool freed = stream && REAL(cuMemFreeAsync)(pointer, stream) == CUDA_SUCCESS;
  return freed ? CUDA_SUCCESS : REAL(cuMemFree_v2)(pointer);
}

static CUresult free_linear(CUdeviceptr pointer) {
  if (fikit_late_free_has(pointer))
    return CUDA_ERROR_INVALID_VALUE; /* the program has freed it already */
  const CUstream behind = fikit_managed_pool_has(pointer) ? fikit_movable_freed_at_once(pointer) : NULL;
  const uint64_t converted = fikit_converted_take(pointer);
  const bool of_pool = fikit_managed_pool_take(pointer);
  const CUresult result = free_behind(pointer, behind);
  fikit_converted_freed(pointer, converted, result);
  if (of_pool && result != CUDA_SUCCESS)
    fikit_managed_pool_gave(pointer);
  return result;
}

static CUresult free_counted(CUdeviceptr pointer) {
  FIKIT_FREE(pointer, free_linear(pointer));
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  const CUresult result = free_counted(pointer);
  fikit_late_frees_look();
  return result;
}

/* Only the driver knows the pitch: rows of 512 bytes are what it uses at least, the rest is settled when it has answered. */
static uint64_t pitched_bytes(uint64_t width, uint64_t height) {
  const uint64_t pitch = (width + 511) / 512 * 512;
  return height && pitch > UINT64_MAX / height ? UINT64_MAX : pitch * height;
}

static bool settle_pitch(struct fikit_device *device, uint64_t reserved, uint64_t needed) {
  if (needed > reserved)
    return fikit_memory_reserve(device, needed - reserved);
  fikit_memory_return(device, reserved - needed);
  return true;
}

/* Rows of 512 bytes are what fikit's own choice of a pitch has, too. What the driver would refuse, it is asked for. */
static bool pitch_converts(const struct fikit_place *place, const CUdeviceptr *out, const size_t *pitch, uint64_t bytes,
                           unsigned element) {
  return out && pitch && (element == 4 || element == 8 || element == 16) && bytes != UINT64_MAX && fikit_converts(place, bytes);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element) {
  const struct fikit_place place = fikit_place_current();
  const uint64_t bytes = pitched_bytes(width, height);
  CUresult converted;
  fikit_late_frees_look();
  if (pitch_converts(&place, out, pitch, bytes, element) && fikit_convert(&place, out, bytes, &converted)) {
    if (converted == CUDA_SUCCESS)
      *pitch = bytes / height;
    return converted;
  }
  if (!fikit_memory_reserve(place.device, bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = REAL(cuMemAllocPitch_v2)(out, pitch, width, height, element);
  const uint64_t needed = result == CUDA_SUCCESS ? (uint64_t)*pitch * height : bytes;
  if (settle_pitch(place.device, bytes, needed)) {
    allocated_linear(&place, needed, result == CUDA_SUCCESS ? *out : 0);
    return result;
  }
  fikit_memory_return(place.device, bytes);
  REAL(cuMemFree_v2)(*out);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *out, unsigned *pitch, unsigned width, unsigned height, unsigned element) {
  FIKIT_ALLOCATE(fikit_place_current(), pitched_bytes(width, height), *out,
                 REAL(cuMemAllocPitch)(out, pitch, width, height, element));
}
