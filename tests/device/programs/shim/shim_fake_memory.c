/* Memory of the stand-in libcuda.so.1: what children of a fork need, and what the emulated GPU does not have: arrays, and the
   calls of CUDA 3 with 32-bit addresses. */
#include "shim_fake_cuda.h"


static uintptr_t next_memory = 0x800000;

API CUresult cuMemCreate(unsigned long long *handle, size_t bytes, const void *properties, unsigned long long flags) {
  (void)bytes, (void)properties, (void)flags;
  COUNTED;
  *handle = __atomic_add_fetch(&next_memory, 0x100, __ATOMIC_RELAXED);
  return 0;
}
API CUresult cuMemRelease(unsigned long long handle) {
  (void)handle;
  COUNTED;
  return 0;
}

API CUresult cuArrayCreate(void **out, const void *shape) {
  (void)shape;
  COUNTED;
  *out = (void *)(next_memory += 0x100);
  return 0;
}
API CUresult cuArrayCreate_v2(void **out, const void *shape) {
  (void)shape;
  COUNTED;
  *out = (void *)(next_memory += 0x100);
  return 0;
}
API CUresult cuArray3DCreate(void **out, const void *shape) {
  (void)shape;
  COUNTED;
  *out = (void *)(next_memory += 0x100);
  return 0;
}
API CUresult cuArray3DCreate_v2(void **out, const void *shape) {
  (void)shape;
  COUNTED;
  *out = (void *)(next_memory += 0x100);
  return 0;
}
API CUresult cuMipmappedArrayCreate(void **out, const void *shape, unsigned levels) {
  (void)shape, (void)levels;
  COUNTED;
  *out = (void *)(next_memory += 0x100);
  return 0;
}
API CUresult cuArrayDestroy(void *array) {
  (void)array;
  COUNTED;
  return 0;
}
API CUresult cuMipmappedArrayDestroy(void *array) {
  (void)array;
  COUNTED;
  return 0;
}
API CUresult cuMemAlloc(unsigned *out, unsigned bytes) {
  (void)bytes;
  COUNTED;
  *out = (unsigned)(next_memory += 0x100);
  return 0;
}
API CUresult cuMemAllocPitch(unsigned *out, unsigned *pitch, unsigned width, unsigned height, unsigned element) {
  (void)height, (void)element;
  COUNTED;
  *pitch = (width + 511) / 512 * 512;
  *out = (unsigned)(next_memory += 0x100);
  return 0;
}
/* A pitch that nobody expects. */
API CUresult cuMemAllocPitch_v2(uintptr_t *out, size_t *pitch, size_t width, size_t height, unsigned element) {
  (void)width, (void)height, (void)element;
  COUNTED;
  *pitch = 4096;
  *out = next_memory += 0x100;
  return 0;
}
API CUresult cuMemFree(unsigned pointer) {
  (void)pointer;
  COUNTED;
  return 0;
}
API CUresult cuMemAlloc_v2(uintptr_t *pointer, size_t bytes) {
  (void)bytes;
  COUNTED;
  *pointer = 0x10000;
  return 0;
}
API CUresult cuMemFree_v2(uintptr_t pointer) {
  (void)pointer;
  COUNTED;
  return 0;
}
API CUresult cuMemsetD8Async(uintptr_t pointer, unsigned char value, size_t count, void *stream) {
  (void)pointer, (void)value, (void)count, (void)stream;
  COUNTED;
  return 0;
}
API CUresult cuMemGetInfo(unsigned *free_bytes, unsigned *total) {
  *free_bytes = *total = 1 << 30;
  return 0;
}
API CUresult cuDeviceTotalMem(unsigned *bytes, int device) {
  (void)device;
  *bytes = 1 << 30;
  return 0;
}

/* In stream order, each piece elsewhere. */
API CUresult cuMemAllocAsync(uintptr_t *pointer, size_t bytes, void *stream) {
  static _Atomic unsigned pieces;
  (void)bytes, (void)stream;
  COUNTED;
  *pointer = 0x100000 + (uintptr_t)(pieces++ % 1024) * 0x10000;
  return 0;
}

/* Host memory was never told to it, and device memory is low. */
API CUresult cuPointerGetAttribute(void *value, int attribute, uintptr_t pointer) {
  COUNTED;
  if (attribute != 2 || pointer >= UINT64_C(1) << 30)
    return INVALID_VALUE;
  *(unsigned *)value = 2;
  return 0;
}
