/* Stream-ordered allocation: what a pool holds, keeps and gives back. */
#include "memory_api.h"

typedef struct {
  int type, handle_types;
  Location location;
  void *windows;
  size_t most;
  unsigned short usage;
  unsigned char reserved[54];
} PoolProps;

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *, CUdevice), cuDeviceGetMemPool(CUmemoryPool *, CUdevice), cuDeviceSetMemPool(CUdevice, CUmemoryPool);
CUresult cuMemGetMemPool(CUmemoryPool *, Location *, int), cuMemGetDefaultMemPool(CUmemoryPool *, Location *, int);
CUresult cuMemPoolCreate(CUmemoryPool *, const PoolProps *), cuMemPoolDestroy(CUmemoryPool), cuMemPoolTrimTo(CUmemoryPool, size_t);
CUresult cuMemPoolGetAttribute(CUmemoryPool, int, void *), cuMemPoolSetAttribute(CUmemoryPool, int, void *);
CUresult cuMemPoolSetAccess(CUmemoryPool, const AccessDesc *, size_t), cuMemPoolGetAccess(int *, CUmemoryPool, Location *);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, CUmemoryPool, CUstream), cuMemPoolExportPointer(void *, CUdeviceptr);

enum { REUSE = 1, THRESHOLD = 4, RESERVED = 5, RESERVED_HIGH, USED, USED_HIGH, BYTES = 8 << 20, POOL = 17 };

static uint64_t holds(CUmemoryPool pool, int attribute) {
  uint64_t value = 99;
  OK(cuMemPoolGetAttribute(pool, attribute, &value));
  return value;
}

int main(void) {
  CUcontext context;
  CUmodule module = open_device(&context);
  const PoolProps properties = {.type = PINNED, .location = {ON_DEVICE, 0}};
  CUmemoryPool standard, current, pool;
  CUstream stream;
  CUdeviceptr first, second;
  uint64_t all = UINT64_MAX, zero = 0;
  int flag = 9;
  OK(cuStreamCreate(&stream, 1));
  OK(cuDeviceGetDefaultMemPool(&standard, 0));
  OK(cuDeviceGetMemPool(&current, 0));
  see("default_is_current", standard == current);
  see("create", cuMemPoolCreate(&pool, &properties));
  OK(cuMemPoolGetAttribute(pool, REUSE, &flag));
  see("reuse", flag);
  see("threshold", (long long)holds(pool, THRESHOLD));
  see("used_at_first", (long long)holds(pool, USED));

  first = 99;
  see("allocate_nothing", cuMemAllocFromPoolAsync(&first, 0, pool, stream));
  see("nothing_has_no_address", first == 0);
  first = 99;
  see("allocate_nothing_at_all", cuMemAllocAsync(&first, 0, stream));
  see("that_has_no_address", first == 0);
  see("allocate", cuMemAllocFromPoolAsync(&first, BYTES, pool, stream));
  see("used", (long long)holds(pool, USED));
  see("reserved_covers_it", holds(pool, RESERVED) >= BYTES);
  CUmemoryPool home = NULL;
  OK(cuPointerGetAttribute(&home, POOL, first));
  see("pool_of_pointer", home == pool);
  OK(cuMemsetD32Async(first, 6, 1, stream));
  OK(increment(kernel(module, "emu_increment"), first, stream));
  OK(cuStreamSynchronize(stream));
  see("usable", word(first));

  OK(cuMemPoolSetAttribute(pool, THRESHOLD, &all));
  see("free", cuMemFreeAsync(first, stream));
  OK(cuStreamSynchronize(stream));
  see("used_after_free", (long long)holds(pool, USED));
  see("kept_below_threshold", holds(pool, RESERVED) >= BYTES);
  see("used_high", (long long)holds(pool, USED_HIGH));
  see("reset_high", cuMemPoolSetAttribute(pool, USED_HIGH, &zero));
  see("high_then", (long long)holds(pool, USED_HIGH));
  see("trim_to_most", cuMemPoolTrimTo(pool, BYTES));
  see("at_least_that_is_kept", holds(pool, RESERVED) >= BYTES);
  see("trim", cuMemPoolTrimTo(pool, 0));
  see("trimmed", (long long)holds(pool, RESERVED));
  OK(cuMemPoolSetAttribute(pool, THRESHOLD, &zero));
  OK(cuMemAllocFromPoolAsync(&first, BYTES, pool, stream));
  OK(cuMemFreeAsync(first, stream));
  OK(cuStreamSynchronize(stream));
  see("nothing_kept_above_threshold", (long long)holds(pool, RESERVED));
  see("set_used", cuMemPoolSetAttribute(pool, USED, &zero));

  Location here = {ON_DEVICE, 0};
  const AccessDesc none = {{ON_DEVICE, 0}, 0};
  OK(cuMemPoolGetAccess(&flag, pool, &here));
  see("own_access", flag);
  see("own_access_cannot_go", cuMemPoolSetAccess(pool, &none, 1));

  see("make_current", cuDeviceSetMemPool(0, pool));
  OK(cuMemGetMemPool(&current, &here, PINNED));
  see("current_by_location", current == pool);
  OK(cuMemGetDefaultMemPool(&current, &here, PINNED));
  see("default_by_location", current == standard);
  OK(cuMemAllocAsync(&second, BYTES, stream));
  see("current_pool_serves", (long long)holds(pool, USED));
  see("free_at_once", cuMemFree_v2(second));
  OK(cuCtxSynchronize());
  see("freed_at_once", (long long)holds(pool, USED));
  see("destroy", cuMemPoolDestroy(pool));
  OK(cuDeviceGetMemPool(&current, 0));
  see("default_is_current_again", standard == current);
  see("destroy_default", cuMemPoolDestroy(standard));
  return 0;
}
