/*
 * The program knows the default pool alone: what it sets there is set in the managed pool, too, and its questions about used and reserved bytes get the
 * sum of both pools. One GPU only: others convert nothing (convert.c).
 */
#include "memory/managed_pool.h"
#include "memory/movable.h"
#include "base/handle_map.h"
#include "base/log.h"
#include "base/symbols.h"

#include <stdatomic.h>
#include <string.h>

enum { CU_MEM_ALLOCATION_TYPE_MANAGED = 2 };
/* Numbers of CUmemPool_attribute: the first four are set, the others are bytes of 64 bits. */
enum { REUSE_FIRST = 1, REUSE_LAST = 3, RELEASE_THRESHOLD = 4, RESERVED_CURRENT = 5, USED_HIGH = 8 };

/* The whole of the driver's structure (88 bytes, CUDA 13): it reads all of it. */
union properties {
  CUmemPoolProps known;
  char whole[88];
};
_Static_assert(sizeof(union properties) == 88, "as large as the driver's");

static _Atomic(CUmemoryPool) managed;  /* made once */
static _Atomic(CUmemoryPool) stood_for; /* the default pool; written before `managed` */
static _Atomic bool none;
static HANDLE_MAP(given); /* address -> 1; of no context, as all memory of pools */

static void same_settings(CUmemoryPool from, CUmemoryPool to) {
  for (int attribute = REUSE_FIRST; attribute <= RELEASE_THRESHOLD; attribute++) {
    uint64_t value = 0; /* a number of 32 bits in the first three */
    if (REAL(cuMemPoolGetAttribute)(from, attribute, &value) == CUDA_SUCCESS)
      REAL(cuMemPoolSetAttribute)(to, attribute, &value);
  }
}

static CUmemoryPool make(CUmemoryPool instead_of, CUdevice device) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  union properties wanted;
  CUmemoryPool made = NULL, nobody = NULL;
  memset(&wanted, 0, sizeof wanted);
  wanted.known.type = CU_MEM_ALLOCATION_TYPE_MANAGED;
  wanted.known.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, device};
  if (!HAS(cuMemPoolCreate) || REAL(cuMemPoolCreate)(&made, &wanted.known) != CUDA_SUCCESS) {
    atomic_store(&none, true);
    if (!atomic_flag_test_and_set(&said))
      fikit_log("what this program allocates in stream order (cuMemAllocAsync) stays on the GPU, and --fikit-mem alone is what it may have of it: "
                "the driver has no pools of managed memory (CUDA 13 has).");
    return NULL;
  }
  same_settings(instead_of, made);
  atomic_store(&stood_for, instead_of);
  if (!atomic_compare_exchange_strong(&managed, &nobody, made)) { /* another thread was faster */
    REAL(cuMemPoolDestroy)(made);
    return nobody;
  }
  return made;
}

CUmemoryPool fikit_managed_pool_for(CUmemoryPool pool) {
  CUmemoryPool current = pool, usual = NULL;
  CUdevice device;
  if (atomic_load_explicit(&none, memory_order_relaxed) || REAL(cuCtxGetDevice)(&device) != CUDA_SUCCESS ||
      REAL(cuDeviceGetDefaultMemPool)(&usual, device) != CUDA_SUCCESS ||
      (!pool && REAL(cuDeviceGetMemPool)(&current, device) != CUDA_SUCCESS) || current != usual)
    return NULL;
  const CUmemoryPool known = atomic_load(&managed);
  return known ? known : make(usual, device);
}

CUmemoryPool fikit_managed_pool_shown(CUmemoryPool pool) {
  return pool && pool == atomic_load(&managed) ? atomic_load(&stood_for) : pool;
}

bool fikit_managed_pool_gave(CUdeviceptr pointer) {
  return handle_map_put(&given, pointer, 1, 0);
}

bool fikit_managed_pool_has(CUdeviceptr pointer) {
  return atomic_load_explicit(&managed, memory_order_relaxed) && handle_map_get(&given, pointer);
}

bool fikit_managed_pool_take(CUdeviceptr pointer) {
  const bool taken = atomic_load_explicit(&managed, memory_order_relaxed) && handle_map_take(&given, pointer);
  if (taken)
    fikit_movable_gone(pointer);
  return taken;
}

void fikit_managed_pool_forget_all(void) {
  atomic_store(&managed, NULL);
  handle_map_forget_all(&given);
}

/* The managed pool where `pool` is the default one; else NULL. */
static CUmemoryPool beside(CUmemoryPool pool) {
  const CUmemoryPool known = atomic_load_explicit(&managed, memory_order_acquire);
  return known && pool == atomic_load(&stood_for) ? known : NULL;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value) {
  const CUresult result = REAL(cuMemPoolSetAttribute)(pool, attribute, value);
  const CUmemoryPool too = beside(pool);
  if (result == CUDA_SUCCESS && too)
    REAL(cuMemPoolSetAttribute)(too, attribute, value);
  return result;
}

/* Two highest values may be of two moments: their sum is what there was at most. */
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value) {
  const CUresult result = REAL(cuMemPoolGetAttribute)(pool, attribute, value);
  const CUmemoryPool too = beside(pool);
  uint64_t more = 0;
  if (result == CUDA_SUCCESS && too && attribute >= RESERVED_CURRENT && attribute <= USED_HIGH &&
      REAL(cuMemPoolGetAttribute)(too, attribute, &more) == CUDA_SUCCESS)
    *(uint64_t *)value += more;
  return result;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  const CUmemoryPool too = beside(pool);
  if (too)
    REAL(cuMemPoolTrimTo)(too, keep);
  return REAL(cuMemPoolTrimTo)(pool, keep);
}
