/* Contexts: the stack of a thread, the device's primary one, and what outlives one. */
#include "../conformance.h"

CUresult cuDevicePrimaryCtxReset_v2(CUdevice), cuDeviceGetDefaultMemPool(CUmemoryPool *, CUdevice);
CUresult cuMemPoolGetAttribute(CUmemoryPool, int, void *);
CUresult cuMemAllocAsync(CUdeviceptr *, size_t, CUstream), cuMemFreeAsync(CUdeviceptr, CUstream);

/* "Not associated with any CUDA context" (CUDA manual, cuCtxDestroy). */
static void memory_of_a_pool(CUdevice device) {
  enum { USED = 7, BYTES = 1 << 20 };
  CUcontext one, two;
  CUmemoryPool pool;
  CUdeviceptr kept;
  uint64_t used = 0;
  OK(cuCtxCreate_v2(&one, 0, device));
  OK(cuDeviceGetDefaultMemPool(&pool, device));
  OK(cuMemAllocAsync(&kept, BYTES, NULL));
  OK(cuCtxDestroy_v2(one));
  OK(cuMemPoolGetAttribute(pool, USED, &used));
  see("pool_memory_outlives_its_context", used >= BYTES);
  OK(cuCtxCreate_v2(&two, 0, device));
  see("and_is_freed_in_another", cuMemFreeAsync(kept, NULL));
  OK(cuCtxSynchronize());
  OK(cuMemPoolGetAttribute(pool, USED, &used));
  see("then_it_is_gone", (long long)used);
  OK(cuCtxDestroy_v2(two));
}

int main(void) {
  CUcontext a, b, current;
  CUdevice device;
  unsigned flags;
  int active, count;
  see("before_init", cuDeviceGetCount(&count));
  OK(cuInit(0));
  OK(cuDeviceGet(&device, 0));
  see("without_context", cuCtxSynchronize());
  OK(cuCtxCreate_v2(&a, 0, device));
  OK(cuCtxCreate_v2(&b, 0, device));
  OK(cuCtxGetCurrent(&current));
  see("created_is_current", current == b);
  OK(cuCtxPopCurrent_v2(&current));
  see("popped", current == b);
  OK(cuCtxGetCurrent(&current));
  see("the_one_below", current == a);
  OK(cuCtxPushCurrent_v2(b));
  OK(cuCtxGetCurrent(&current));
  see("pushed", current == b);
  OK(cuCtxDestroy_v2(b));
  OK(cuCtxGetCurrent(&current));
  see("destroying_pops", current == a);
  OK(cuCtxDestroy_v2(a));

  OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
  see("primary_not_retained", active);
  OK(cuDevicePrimaryCtxRetain(&a, device));
  OK(cuDevicePrimaryCtxRetain(&b, device));
  see("one_primary", a == b);
  OK(cuDevicePrimaryCtxRelease_v2(device));
  OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
  see("released_once", active);
  OK(cuDevicePrimaryCtxRelease_v2(device));
  OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
  see("released_twice", active);
  see("released_too_often", cuDevicePrimaryCtxRelease_v2(device));
  OK(cuDevicePrimaryCtxRetain(&a, device));
  OK(cuDevicePrimaryCtxReset_v2(device));
  OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
  see("inactive_once_reset", active);
  see("release_after_reset", cuDevicePrimaryCtxRelease_v2(device)); /* "does not release it" (cuDevicePrimaryCtxReset) */
  memory_of_a_pool(device);
  return 0;
}
