#include "memory/allocation.h"
#include "base/handle_map.h"
#include "base/symbols.h"

#include <stdlib.h>

struct fikit_allocation {
  struct fikit_place place;
  uint64_t bytes;
};

/* Pointer or array -> struct fikit_allocation; owner: the context. */
static HANDLE_MAP(allocations);

struct fikit_place fikit_place_current(void) {
  struct fikit_place place;
  place.device = fikit_device_current(&place.context);
  return place;
}

static bool remember(struct fikit_allocation *allocation, uintptr_t handle) {
  return handle_map_put(&allocations, handle, (uintptr_t)allocation, (uintptr_t)allocation->place.context);
}

/* What cannot be remembered is not counted either: it would never be given back. */
void fikit_allocated(const struct fikit_place *place, uint64_t bytes, uintptr_t handle) {
  if (!place->device)
    return;
  struct fikit_allocation *allocation = handle ? malloc(sizeof *allocation) : NULL;
  if (allocation) {
    *allocation = (struct fikit_allocation){*place, bytes};
    if (remember(allocation, handle)) {
      fikit_memory_kept(place->device);
      return;
    }
  }
  free(allocation);
  fikit_memory_return(place->device, bytes);
}

struct fikit_allocation *fikit_allocation_take(uintptr_t handle) {
  return (void *)handle_map_take(&allocations, handle);
}

static void give_back(struct fikit_allocation *allocation) {
  fikit_memory_return(allocation->place.device, allocation->bytes);
  free(allocation);
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
}

void fikit_allocation_forget_all(void) {
  handle_map_forget_all(&allocations);
}

/* ---- linear memory */

CUresult cuMemAlloc(CUdeviceptr_v1 *out, unsigned bytes) {
  FIKIT_ALLOCATE(fikit_place_current(), bytes, *out, REAL(cuMemAlloc)(out, bytes));
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
  FIKIT_ALLOCATE(fikit_place_current(), bytes, *out, REAL(cuMemAlloc_v2)(out, bytes));
}

/* Counted against the GPU whose context allocates it, wherever its pages are at the moment. */
CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags) {
  FIKIT_ALLOCATE(fikit_place_current(), bytes, *out, REAL(cuMemAllocManaged)(out, bytes, flags));
}

CUresult cuMemFree(CUdeviceptr_v1 pointer) {
  FIKIT_FREE(pointer, REAL(cuMemFree)(pointer));
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  FIKIT_FREE(pointer, REAL(cuMemFree_v2)(pointer));
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

CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element) {
  const struct fikit_place place = fikit_place_current();
  const uint64_t bytes = pitched_bytes(width, height);
  if (!fikit_memory_reserve(place.device, bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = REAL(cuMemAllocPitch_v2)(out, pitch, width, height, element);
  const uint64_t needed = result == CUDA_SUCCESS ? (uint64_t)*pitch * height : bytes;
  if (settle_pitch(place.device, bytes, needed)) {
    fikit_allocated(&place, needed, result == CUDA_SUCCESS ? *out : 0);
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
