/* Managed memory: allocation, advice, prefetching, what is remembered of them. */
#include "memory_api.h"

CUresult cuMemAllocManaged(CUdeviceptr *, size_t, unsigned), cuMemPrefetchAsync(CUdeviceptr, size_t, CUdevice, CUstream);
CUresult cuMemPrefetchAsync_v2(CUdeviceptr, size_t, Location, unsigned, CUstream), cuMemAdvise(CUdeviceptr, size_t, int, CUdevice);
CUresult cuMemAdvise_v2(CUdeviceptr, size_t, int, Location), cuMemRangeGetAttribute(void *, size_t, int, CUdeviceptr, size_t);
CUresult cuMemRangeGetAttributes(void **, size_t *, int *, size_t, CUdeviceptr, size_t);
CUresult cuStreamAttachMemAsync(CUstream, CUdeviceptr, size_t, unsigned);

enum { SET_READ_MOSTLY = 1, UNSET_READ_MOSTLY, SET_PREFERRED, UNSET_PREFERRED, SET_ACCESSED_BY, UNSET_ACCESSED_BY };
enum { READ_MOSTLY = 1, PREFERRED, ACCESSED_BY, LAST_PREFETCH, PREFERRED_TYPE };
enum { CPU = -1, BYTES = 1 << 20, HALF = BYTES / 2, IS_MANAGED = 8, TYPE = 2 };

static int about(int attribute, CUdeviceptr memory, size_t bytes) {
  int value = 99;
  OK(cuMemRangeGetAttribute(&value, sizeof value, attribute, memory, bytes));
  return value;
}

int main(void) {
  CUcontext context;
  CUmodule module = open_device(&context);
  CUdeviceptr memory, device = zeroed(4096), none;
  CUstream stream;
  OK(cuStreamCreate(&stream, 0));
  see("no_attachment", cuMemAllocManaged(&none, 64, 0));
  see("attached_singly", cuMemAllocManaged(&none, 64, ATTACH_SINGLE));
  see("allocate", cuMemAllocManaged(&memory, BYTES, ATTACH_GLOBAL));
  unsigned managed = 0, type = 0;
  OK(cuPointerGetAttribute(&managed, IS_MANAGED, memory));
  see("is_managed", managed);
  OK(cuPointerGetAttribute(&type, TYPE, memory));
  see("memory_type", type);
  volatile uint32_t *host = (void *)(uintptr_t)memory;
  *host = 5;
  OK(increment(kernel(module, "emu_increment"), memory, stream));
  OK(cuStreamSynchronize(stream));
  see("host_sees_the_device", *host);

  see("preferred_at_first", about(PREFERRED, memory, BYTES));
  see("prefetched_at_first", about(LAST_PREFETCH, memory, BYTES));
  see("advise", cuMemAdvise(memory, HALF, SET_READ_MOSTLY, 0));
  see("read_mostly_half", about(READ_MOSTLY, memory, HALF));
  see("read_mostly_all", about(READ_MOSTLY, memory, BYTES));
  see("prefer_host", cuMemAdvise(memory, BYTES, SET_PREFERRED, CPU));
  see("preferred", about(PREFERRED, memory, BYTES));
  see("prefer_device", cuMemAdvise_v2(memory + HALF, HALF, SET_PREFERRED, (Location){ON_DEVICE, 0}));
  see("preferred_second_half", about(PREFERRED, memory + HALF, HALF));
  see("preferred_mixed", about(PREFERRED, memory, BYTES));
  see("preferred_type", about(PREFERRED_TYPE, memory, HALF));
  OK(cuMemAdvise(memory, BYTES, UNSET_PREFERRED, 0));
  see("preferred_no_more", about(PREFERRED, memory, BYTES));
  OK(cuMemAdvise(memory, BYTES, SET_ACCESSED_BY, 0));
  int accessors[2] = {99, 99};
  OK(cuMemRangeGetAttribute(accessors, sizeof accessors, ACCESSED_BY, memory, BYTES));
  see("accessed_by", accessors[0]);
  see("and_nobody_else", accessors[1]);
  see("prefetch", cuMemPrefetchAsync(memory, HALF, 0, stream));
  see("prefetched", about(LAST_PREFETCH, memory, HALF));
  see("prefetched_all", about(LAST_PREFETCH, memory, BYTES));
  see("prefetch_to_host", cuMemPrefetchAsync_v2(memory, BYTES, (Location){ON_HOST, 0}, 0, stream));
  int mostly = 99, last = 99, attributes[] = {READ_MOSTLY, LAST_PREFETCH};
  void *answers[] = {&mostly, &last};
  size_t sizes[] = {sizeof mostly, sizeof last};
  see("several", cuMemRangeGetAttributes(answers, sizes, attributes, 2, memory, BYTES));
  see("several_second", last);
  see("wrong_size", cuMemRangeGetAttribute(&last, 3, READ_MOSTLY, memory, BYTES));
  see("unknown_advice", cuMemAdvise(memory, BYTES, 77, 0));
  see("advise_absent_device", cuMemAdvise(memory, BYTES, SET_ACCESSED_BY, 4711));
  see("prefetch_device_memory", cuMemPrefetchAsync(device, 64, 0, stream));
  see("prefetch_too_much", cuMemPrefetchAsync(memory, 2 * BYTES, 0, stream));

  see("attach_to_stream", cuStreamAttachMemAsync(stream, memory, 0, ATTACH_SINGLE));
  see("attach_to_default_stream", cuStreamAttachMemAsync(NULL, memory, 0, ATTACH_SINGLE));
  see("attach_a_part", cuStreamAttachMemAsync(stream, memory, HALF, ATTACH_GLOBAL));
  see("attach_device_memory", cuStreamAttachMemAsync(stream, device, 0, ATTACH_GLOBAL));
  see("attach_to_all", cuStreamAttachMemAsync(stream, memory, 0, ATTACH_GLOBAL));
  OK(cuStreamSynchronize(stream));
  see("free", cuMemFree_v2(memory));
  return 0;
}
