/* Many copies, prefetches or discards in one call: all of them or, when the batch is wrong, none. */
#include "memory_api.h"

enum { IN_STREAM_ORDER = 1, DURING_CALL, ANY_TIME, POINTER = 1, CPU = -1, LAST_PREFETCH = 4, SYNC_MEMOPS = 6 };

typedef struct {
  int source_access;
  Location source, target;
  unsigned flags;
} CopyAttributes;

typedef struct {
  int type;
  CUdeviceptr pointer;
  size_t row_length, layer_height;
  Location hint;
} Operand;

typedef struct {
  Operand source, target;
  size_t width, height, depth;
  int source_access;
  unsigned flags;
} SpaceCopy;

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CopyAttributes *, size_t *, size_t, CUstream);
CUresult cuMemcpyBatchAsync(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CopyAttributes *, size_t *, size_t, size_t *, CUstream);
CUresult cuMemcpy3DBatchAsync_v2(size_t, SpaceCopy *, unsigned long long, CUstream);
CUresult cuMemPrefetchBatchAsync(CUdeviceptr *, size_t *, size_t, Location *, size_t *, size_t, unsigned long long, CUstream);
CUresult cuMemDiscardBatchAsync(CUdeviceptr *, size_t *, size_t, unsigned long long, CUstream);
CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *, size_t *, size_t, Location *, size_t *, size_t, unsigned long long, CUstream);
CUresult cuMemAllocManaged(CUdeviceptr *, size_t, unsigned), cuMemRangeGetAttribute(void *, size_t, int, CUdeviceptr, size_t);
CUresult cuPointerSetAttribute(const void *, int, CUdeviceptr);

static CUdeviceptr number(uint32_t value) {
  const CUdeviceptr memory = zeroed(64);
  OK(cuMemcpyHtoD_v2(memory, &value, 4));
  return memory;
}

static void copies(CUstream stream) {
  CUdeviceptr sources[3] = {number(1), number(2), number(3)}, targets[3] = {zeroed(64), zeroed(64), zeroed(64)};
  size_t sizes[3] = {4, 4, 4}, firsts[2] = {0, 2}, wrong[2] = {1, 2}, backward[2] = {0, 0}, failed = 0;
  CopyAttributes attributes[2] = {{IN_STREAM_ORDER, {0, 0}, {0, 0}, 0}, {ANY_TIME, {0, 0}, {0, 0}, 0}};
  const uint32_t mine = 7;
  see("copies", cuMemcpyBatchAsync_v2(targets, sources, sizes, 3, attributes, firsts, 2, stream));
  OK(cuStreamSynchronize(stream));
  see("copied", word(targets[0]) * 100 + word(targets[1]) * 10 + word(targets[2]));
  sources[0] = (CUdeviceptr)(uintptr_t)&mine;
  attributes[0].source_access = DURING_CALL;
  see("from_the_stack", cuMemcpyBatchAsync(targets, sources, sizes, 1, attributes, firsts, 1, &failed, stream));
  OK(cuStreamSynchronize(stream));
  see("copied_from_the_stack", word(targets[0]));
  see("no_copies", cuMemcpyBatchAsync_v2(targets, sources, sizes, 0, attributes, firsts, 1, stream));
  see("first_entry_late", cuMemcpyBatchAsync_v2(targets, sources, sizes, 3, attributes, wrong, 2, stream));
  see("entries_backward", cuMemcpyBatchAsync_v2(targets, sources, sizes, 3, attributes, backward, 2, stream));
  see("more_entries_than_copies", cuMemcpyBatchAsync_v2(targets, sources, sizes, 1, attributes, firsts, 2, stream));
  attributes[1].source_access = 0;
  see("no_access_order", cuMemcpyBatchAsync_v2(targets, sources, sizes, 3, attributes, firsts, 2, stream));
}

static void copies_in_space(CUstream stream) {
  const CUdeviceptr plane = zeroed(64), rows = zeroed(64);
  uint32_t value = 0;
  OK(cuMemsetD8_v2(plane, 9, 64));
  /* 2 rows of 4 bytes, 8 apart where they go */
  SpaceCopy copy = {{POINTER, plane, 0, 0, {0, 0}}, {POINTER, rows, 8, 0, {0, 0}}, 4, 2, 1, IN_STREAM_ORDER, 0};
  see("in_space", cuMemcpy3DBatchAsync_v2(1, &copy, 0, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuMemcpyDtoH_v2(&value, rows + 8, 4));
  see("second_row", value == 0x09090909);
  see("between_the_rows", word(rows + 4));
  copy.target.row_length = 3;
  see("row_shorter_than_the_copy", cuMemcpy3DBatchAsync_v2(1, &copy, 0, stream));
  copy.target.row_length = 0;
  copy.depth = 0;
  see("no_depth", cuMemcpy3DBatchAsync_v2(1, &copy, 0, stream));
}

static int last_prefetch(CUdeviceptr memory) {
  int device = 99;
  OK(cuMemRangeGetAttribute(&device, sizeof device, LAST_PREFETCH, memory, 4096));
  return device;
}

static void managed(CUstream stream) {
  CUdeviceptr memory[2], device = zeroed(64);
  size_t sizes[2] = {4096, 4096}, small = 64, firsts[2] = {0, 1};
  Location places[2] = {{ON_DEVICE, 0}, {ON_HOST, 0}};
  OK(cuMemAllocManaged(&memory[0], 4096, ATTACH_GLOBAL));
  OK(cuMemAllocManaged(&memory[1], 4096, ATTACH_GLOBAL));
  see("prefetches", cuMemPrefetchBatchAsync(memory, sizes, 2, places, firsts, 2, 0, stream));
  OK(cuStreamSynchronize(stream));
  see("prefetched_to_device", last_prefetch(memory[0]));
  see("prefetched_to_host", last_prefetch(memory[1]));
  see("prefetch_of_other_memory", cuMemPrefetchBatchAsync(&device, &small, 1, places, firsts, 1, 0, stream));
  see("discards", cuMemDiscardBatchAsync(memory, sizes, 2, 0, stream));
  see("discard_with_flags", cuMemDiscardBatchAsync(memory, sizes, 2, 1, stream));
  see("discard_and_prefetch", cuMemDiscardAndPrefetchBatchAsync(memory, sizes, 2, &places[1], firsts, 1, 0, stream));
  OK(cuStreamSynchronize(stream));
  see("discarded_to_host", last_prefetch(memory[0]));
}

int main(void) {
  CUcontext context;
  CUstream stream;
  open_device(&context);
  OK(cuStreamCreate(&stream, 1));
  copies(stream);
  copies_in_space(stream);
  managed(stream);
  const CUdeviceptr memory = zeroed(64);
  int on = 1, answer = 9;
  OK(cuPointerGetAttribute(&answer, SYNC_MEMOPS, memory));
  see("sync_memops_at_first", answer);
  see("set_sync_memops", cuPointerSetAttribute(&on, SYNC_MEMOPS, memory));
  OK(cuPointerGetAttribute(&answer, SYNC_MEMOPS, memory + 32));
  see("sync_memops", answer);
  return 0;
}
