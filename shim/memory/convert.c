/*
 * What a program may notice of the conversion is answered as for plain memory: attributes of a pointer here, how much memory
 * there is in memory_info.c. One line says what managed memory cannot do: once the program has asked for a handle for other processes
 * (cuIpcGetMemHandle) and was refused, all that it allocates afterwards is plain memory.
 */
#include "memory/convert.h"
#include "memory/managed_pool.h"
#include "memory/movable.h"
#include "base/handle_map.h"
#include "base/log.h"
#include "base/symbols.h"

#include <string.h>

/* Drivers have had a limit of 65,536 managed allocations (kokkos #300), and 2 MiB is what moves at a time. */
enum { LEAST_BYTES = 1 << 20 };
enum { CU_MEM_ATTACH_GLOBAL = 1, CU_MEM_ADVISE_SET_PREFERRED_LOCATION = 3, CU_MEM_ADVISE_SET_ACCESSED_BY = 5 };
enum { CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89 };
enum { CU_POINTER_ATTRIBUTE_HOST_POINTER = 4, CU_POINTER_ATTRIBUTE_IS_MANAGED = 8, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17 };

/* Address -> bytes; owner: the context. */
static HANDLE_MAP(converted);
static _Atomic bool any; /* something was ever converted: others pay for one load */

enum { UNKNOWN, YES, NO };
static _Atomic int possible;

static int refuse(const char *why) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  atomic_store(&possible, NO);
  if (!atomic_flag_test_and_set(&said))
    fikit_log("this program's GPU memory stays on the GPU from here on, and --fikit-mem alone is what it may have: %s.", why);
  return NO;
}

/* Managed memory that the GPU brings by itself, on the one GPU that the program sees. */
static int find_out(void) {
  int count = 0, able = 0, in_mps = 0;
  CUdevice device;
  if (!HAS(cuMemAllocManaged) || !HAS(cuMemAdvise) || REAL(cuCtxGetDevice)(&device) != CUDA_SUCCESS)
    return refuse("the driver has no managed memory");
  if (REAL(cuDeviceGetCount)(&count) != CUDA_SUCCESS || count != 1)
    return refuse("it sees several GPUs");
  if (REAL(cuDeviceGetAttribute)(&able, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device) != CUDA_SUCCESS || !able)
    return refuse("this GPU cannot fetch memory by itself");
  /* fikitd gives none to jobs of its own servers; of another one only this process knows. */
  if (REAL(cuDeviceGetAttribute)(&in_mps, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, device) == CUDA_SUCCESS && in_mps)
    return refuse("it is a client of MPS, and what a server's limits do to managed memory is not known");
  atomic_store(&possible, YES);
  return YES;
}

bool fikit_converts(const struct fikit_place *place, uint64_t bytes) {
  if (!place->device || !fikit_memory_host_bytes(place->device) || bytes < LEAST_BYTES)
    return false;
  const int known = atomic_load_explicit(&possible, memory_order_relaxed);
  return (known == UNKNOWN ? find_out() : known) == YES;
}

/* Without it the driver leaves memory on the host that the GPU has touched once (nvshare #25). A driver that takes no advice
 * still moves it. */
static void advise(CUdeviceptr pointer, uint64_t bytes) {
  CUdevice device;
  if (REAL(cuCtxGetDevice)(&device) != CUDA_SUCCESS)
    return;
  REAL(cuMemAdvise)(pointer, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device);
  REAL(cuMemAdvise)(pointer, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, device);
}

bool fikit_convert(const struct fikit_place *place, CUdeviceptr *out, uint64_t bytes, CUresult *result) {
  if (!fikit_memory_reserve_movable(place->device, bytes)) {
    *result = CUDA_ERROR_OUT_OF_MEMORY;
    return true;
  }
  const CUresult made = REAL(cuMemAllocManaged)(out, bytes, CU_MEM_ATTACH_GLOBAL);
  const bool known = made == CUDA_SUCCESS && handle_map_put(&converted, *out, bytes, (uintptr_t)place->context);
  if (made == CUDA_SUCCESS && !known) /* the shim has no memory to remember it: better plain than managed and seen to be */
    REAL(cuMemFree_v2)(*out);
  if (known) {
    atomic_store(&any, true);
    advise(*out, bytes);
    fikit_movable_came(place->device, place->context, *out, bytes);
  }
  fikit_allocated_movable(place, bytes, known ? *out : 0);
  *result = made;
  return known || made == CUDA_ERROR_OUT_OF_MEMORY;
}

bool fikit_is_converted(CUdeviceptr pointer) {
  CUdeviceptr base = 0;
  if (fikit_managed_pool_has(pointer))
    return true;
  if (!atomic_load_explicit(&any, memory_order_relaxed))
    return false;
  return REAL(cuMemGetAddressRange_v2)(&base, NULL, pointer) == CUDA_SUCCESS &&
         (handle_map_get(&converted, base) || fikit_managed_pool_has(base));
}

uint64_t fikit_converted_take(CUdeviceptr pointer) {
  const uint64_t bytes = atomic_load_explicit(&any, memory_order_relaxed) ? handle_map_take(&converted, pointer) : 0;
  if (bytes)
    fikit_movable_gone(pointer);
  return bytes;
}

void fikit_converted_freed(CUdeviceptr pointer, uint64_t taken, CUresult result) {
  CUcontext context = NULL;
  if (!taken || result == CUDA_SUCCESS)
    return;
  struct fikit_device *device = fikit_device_current(&context);
  if (handle_map_put(&converted, pointer, taken, (uintptr_t)context) && device)
    fikit_movable_came(device, context, pointer, taken);
}

void fikit_convert_seen(void) {
  atomic_store(&any, true);
}

void fikit_convert_context_gone(CUcontext context) {
  fikit_movable_context_gone(context);
  handle_map_erase_owner(&converted, (uintptr_t)context);
}

void fikit_convert_forget_all(void) {
  handle_map_forget_all(&converted);
  fikit_movable_forget_all();
}

/* ---- what programs ask about a pointer */

/* As for memory of cuMemAlloc. A truth is one byte or four, whichever the driver wrote: its lowest byte is enough. */
static void as_plain(void *value, int attribute) {
  if (attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED)
    memset(value, 0, 1);
  else if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
    memcpy(value, &(int){CU_MEMORYTYPE_DEVICE}, sizeof(int));
  else if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER)
    memset(value, 0, sizeof(void *));
  else if (attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE)
    *(CUmemoryPool *)value = fikit_managed_pool_shown(*(CUmemoryPool *)value);
}

CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr pointer) {
  if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER && fikit_is_converted(pointer))
    return CUDA_ERROR_INVALID_VALUE; /* the host has no address for it */
  const CUresult result = REAL(cuPointerGetAttribute)(value, attribute, pointer);
  if (result == CUDA_SUCCESS && fikit_is_converted(pointer))
    as_plain(value, attribute);
  return result;
}

CUresult cuPointerGetAttributes(unsigned count, int *attributes, void **values, CUdeviceptr pointer) {
  const CUresult result = REAL(cuPointerGetAttributes)(count, attributes, values, pointer);
  if (result == CUDA_SUCCESS && fikit_is_converted(pointer)) {
    for (unsigned i = 0; i < count; i++)
      as_plain(values[i], attributes[i]);
  }
  return result;
}

/* Managed memory has no such handle (CUDA manual). What the program allocates from now on has one. */
CUresult cuIpcGetMemHandle(void *handle, CUdeviceptr pointer) {
  const CUresult result = REAL(cuIpcGetMemHandle)(handle, pointer);
  if (result != CUDA_SUCCESS && fikit_is_converted(pointer))
    refuse("it hands memory to other processes (cuIpcGetMemHandle), which fails for what it had before; submit it without "
           "--fikit-mem-host");
  return result;
}
