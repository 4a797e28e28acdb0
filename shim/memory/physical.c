/*
 * Physical memory (cuMemCreate) lives while a handle or a mapping of it does: programs release the handle as soon as it is
 * mapped, or keep it over many mappings. Imported memory is its creator's and not counted here.
 */
#include "memory/physical.h"
#include "base/handle_map.h"
#include "memory/device_memory.h"
#include "memory/memory.h"
#include "base/memory_abi.h"
#include "base/symbols.h"

#include <stdlib.h>

struct physical {
  struct fikit_device *device;
  uint64_t bytes;
  unsigned handles, mappings; /* references of each kind */
};

struct mapping {
  CUdeviceptr address;
  size_t bytes;
  struct physical *physical;
  struct mapping *next;
};

/* All of it under `changing`, never while the driver works. A signal handler that interrupted a change is not noted. */
FIKIT_LOCK(changing);
static HANDLE_MAP(handles); /* CUmemGenericAllocationHandle -> struct physical */
static struct mapping *mappings;

static void give_back_unused(struct physical *physical) {
  if (physical->handles || physical->mappings)
    return;
  fikit_memory_return(physical->device, physical->bytes);
  free(physical);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                     unsigned long long flags) {
  const bool on_gpu = properties && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  struct fikit_device *device = on_gpu ? fikit_device_of(properties->location.id) : NULL;
  if (!fikit_memory_reserve(device, bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = REAL(cuMemCreate)(handle, bytes, properties, flags);
  if (!device)
    return result;
  struct physical *physical = result == CUDA_SUCCESS ? malloc(sizeof *physical) : NULL;
  if (physical) {
    *physical = (struct physical){device, bytes, 1, 0};
    if (handle_map_put(&handles, (uintptr_t)*handle, (uintptr_t)physical, 0)) {
      fikit_memory_kept(device);
      return result;
    }
  }
  free(physical);
  fikit_memory_return(device, bytes); /* what cannot be remembered is not counted */
  return result;
}

/* The last handle is forgotten before the driver may give its number out again. */
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (!fikit_lock_around(&changing))
    return REAL(cuMemRelease)(handle);
  struct physical *physical = (void *)handle_map_get(&handles, (uintptr_t)handle);
  if (physical) {
    physical->mappings++; /* keeps it until the driver has answered */
    if (--physical->handles == 0)
      handle_map_erase(&handles, (uintptr_t)handle);
  }
  fikit_unlock_around(&changing);
  CUresult result = REAL(cuMemRelease)(handle);
  if (!physical || !fikit_lock_around(&changing))
    return result;
  physical->mappings--;
  if (result != CUDA_SUCCESS && physical->handles++ == 0)
    handle_map_put(&handles, (uintptr_t)handle, (uintptr_t)physical, 0);
  give_back_unused(physical);
  fikit_unlock_around(&changing);
  return result;
}

/* An address gets its memory's handle once more, also after the last handle was released. */
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
  CUresult result = REAL(cuMemRetainAllocationHandle)(handle, address);
  if (result != CUDA_SUCCESS || !fikit_lock_around(&changing))
    return result;
  for (struct mapping *mapping = mappings; mapping; mapping = mapping->next)
    if ((CUdeviceptr)address - mapping->address < mapping->bytes) {
      if (mapping->physical->handles++ == 0)
        handle_map_put(&handles, (uintptr_t)*handle, (uintptr_t)mapping->physical, 0);
      break;
    }
  fikit_unlock_around(&changing);
  return result;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  struct mapping *mapping = malloc(sizeof *mapping);
  struct physical *physical = NULL;
  if (mapping && fikit_lock_around(&changing)) {
    physical = (void *)handle_map_get(&handles, (uintptr_t)handle);
    if (physical)
      physical->mappings++;
    fikit_unlock_around(&changing);
  }
  CUresult result = REAL(cuMemMap)(address, bytes, offset, handle, flags);
  if (!physical || !fikit_lock_around(&changing)) {
    free(mapping);
    return result;
  }
  if (result == CUDA_SUCCESS) {
    *mapping = (struct mapping){address, bytes, physical, mappings};
    mappings = mapping;
    mapping = NULL;
  } else {
    physical->mappings--;
    give_back_unused(physical);
  }
  fikit_unlock_around(&changing);
  if (!mapping)
    fikit_device_memory_add(NULL, address, bytes);
  free(mapping);
  return result;
}

/* One call may unmap several mappings that lie side by side. They are taken out of the list first: once unmapped, the
 * addresses may be mapped again by another thread. */
static struct mapping *take_within(CUdeviceptr address, size_t bytes) {
  struct mapping *taken = NULL;
  for (struct mapping **link = &mappings; *link;) {
    struct mapping *mapping = *link;
    if (mapping->address - address < bytes) {
      *link = mapping->next;
      mapping->next = taken;
      taken = mapping;
    } else {
      link = &mapping->next;
    }
  }
  return taken;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  if (!fikit_lock_around(&changing))
    return REAL(cuMemUnmap)(address, bytes);
  struct mapping *taken = take_within(address, bytes);
  fikit_unlock_around(&changing);
  for (const struct mapping *mapping = taken; mapping; mapping = mapping->next)
    fikit_device_memory_remove(mapping->address);
  CUresult result = REAL(cuMemUnmap)(address, bytes);
  if (!taken || !fikit_lock_around(&changing))
    return result;
  while (taken) {
    struct mapping *mapping = taken;
    taken = mapping->next;
    if (result == CUDA_SUCCESS) {
      mapping->physical->mappings--;
      give_back_unused(mapping->physical);
      free(mapping);
    } else {
      fikit_device_memory_add(NULL, mapping->address, mapping->bytes);
      mapping->next = mappings;
      mappings = mapping;
    }
  }
  fikit_unlock_around(&changing);
  return result;
}

void fikit_physical_forget_all(void) {
  handle_map_forget_all(&handles);
  mappings = NULL;
}
