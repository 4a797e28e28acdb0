/* Copies of boxes, in batches and between contexts, moves of managed memory, and decompression. */
#include "hooks/copy.h"
#include "hooks/touches.h"
#include "base/memory_abi.h"
#include "base/symbols.h"

static const struct fikit_passing nothing = {.launch = {.entry = NULL}};

/* ---- boxes */

static void touches_box(CUstream stream, const CUDA_MEMCPY3D *copy) {
  struct fikit_range ranges[2];
  const unsigned count = fikit_ranges_of_copy(copy, ranges);
  for (unsigned i = 0; i < count; i++)
    fikit_touches_remember(stream, &ranges[i]);
}

static struct fikit_end end_of(const uint64_t *end) {
  enum { TYPE = 4, HOST, DEVICE };
  const int type = (int)end[TYPE];
  return (struct fikit_end){type, type == CU_MEMORYTYPE_ARRAY ? 0 : type == CU_MEMORYTYPE_HOST ? end[HOST] : end[DEVICE]};
}

static struct fikit_passing begin_box(CUstream stream, const CUDA_MEMCPY3D *copy) {
  if (!copy)
    return nothing;
  if (__builtin_expect(fikit_extents_any(), 0))
    touches_box(stream, copy);
  const size_t rows = copy->height * copy->depth;
  return fikit_copy_begin(stream, end_of(copy->to), end_of(copy->from), copy->width * rows, rows);
}

FIKIT_COPY_SYNC(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *copy), (copy), begin_box(stream_meant, copy))
FIKIT_COPY_ASYNC(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *copy, CUstream stream), (copy, stream), begin_box(stream_meant, copy))
FIKIT_COPY_SYNC(cuMemcpy3DPeer, (const CUDA_MEMCPY3D *copy), (copy), begin_box(stream_meant, copy))
FIKIT_COPY_ASYNC(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D *copy, CUstream stream), (copy, stream), begin_box(stream_meant, copy))

/* ---- between contexts */

static void touches_both(CUstream stream, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  fikit_touches_copied(stream, to, bytes);
  fikit_touches_copied(stream, from, bytes);
}

/* One context's copy goes as any within the device; between two, perhaps of two GPUs, it may take another time. */
static struct fikit_passing begin_peer(CUstream stream, CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes) {
  touches_both(stream, to, from, bytes);
  return (struct fikit_passing){.launch = fikit_fill_begin(stream, to_context == from_context ? FIKIT_COPY_WITHIN : FIKIT_COPY_PEER, bytes, 1)};
}

FIKIT_COPY_SYNC(cuMemcpyPeer, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes),
                (to, to_context, from, from_context, bytes), begin_peer(stream_meant, to, to_context, from, from_context, bytes))
FIKIT_COPY_ASYNC(cuMemcpyPeerAsync,
                 (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream),
                 (to, to_context, from, from_context, bytes, stream), begin_peer(stream_meant, to, to_context, from, from_context, bytes))

/* ---- batches */

static struct fikit_passing begin_batch(CUstream stream, const CUdeviceptr *to, const CUdeviceptr *from, const size_t *sizes, size_t count) {
  enum { MOST_TOUCHED = 64 }; /* more than that of one launch is not learnt (touches.c) */
  struct fikit_copies copies = {.rows = 0};
  if (!to || !from || !sizes)
    return nothing;
  for (size_t i = 0; i < count; i++) {
    if (i < MOST_TOUCHED)
      touches_both(stream, to[i], from[i], sizes[i]);
    fikit_copies_add(&copies, stream, FIKIT_ANY(to[i]), FIKIT_ANY(from[i]), sizes[i], 1);
  }
  return fikit_copies_begin(stream, &copies);
}

FIKIT_COPY_ASYNC(cuMemcpyBatchAsync,
                 (CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, void *attributes, size_t *firsts, size_t entries, size_t *failed,
                  CUstream stream),
                 (to, from, sizes, count, attributes, firsts, entries, failed, stream), begin_batch(stream_meant, to, from, sizes, count))
FIKIT_COPY_ASYNC(cuMemcpyBatchAsync_v2,
                 (CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, void *attributes, size_t *firsts, size_t entries, CUstream stream),
                 (to, from, sizes, count, attributes, firsts, entries, stream), begin_batch(stream_meant, to, from, sizes, count))

static struct fikit_end end_of_operand(const CUmemcpy3DOperand *operand) {
  return operand->type == CU_MEMCPY_OPERAND_TYPE_POINTER ? FIKIT_ANY(operand->of.memory.at) : FIKIT_ARRAY;
}

static struct fikit_passing begin_boxes(CUstream stream, const CUDA_MEMCPY3D_BATCH_OP *boxes, size_t count) {
  struct fikit_copies copies = {.rows = 0};
  for (size_t i = 0; boxes && i < count; i++) {
    const size_t rows = boxes[i].height * boxes[i].depth;
    fikit_copies_add(&copies, stream, end_of_operand(&boxes[i].to), end_of_operand(&boxes[i].from), boxes[i].width * rows, rows);
  }
  return fikit_copies_begin(stream, &copies);
}

FIKIT_COPY_ASYNC(cuMemcpy3DBatchAsync, (size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, size_t *failed, unsigned long long flags, CUstream stream),
                 (count, copies, failed, flags, stream), begin_boxes(stream_meant, copies, count))
FIKIT_COPY_ASYNC(cuMemcpy3DBatchAsync_v2, (size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, unsigned long long flags, CUstream stream),
                 (count, copies, flags, stream), begin_boxes(stream_meant, copies, count))
FIKIT_COPY_ASYNC(cuMemcpy3DWithAttributesAsync, (CUDA_MEMCPY3D_BATCH_OP *copy, unsigned long long flags, CUstream stream), (copy, flags, stream),
                 begin_boxes(stream_meant, copy, 1))

/* ---- moves of managed memory: at most so many bytes, for some are there already */

static enum fikit_copy way_to(int device) {
  return device == CU_DEVICE_CPU ? FIKIT_COPY_OUT : FIKIT_COPY_IN;
}

static enum fikit_copy way_to_place(const CUmemLocation *location) {
  return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? FIKIT_COPY_IN : FIKIT_COPY_OUT;
}

/* To several places: to the GPU, if any of them is one. */
static struct fikit_passing begin_moves(CUstream stream, const size_t *sizes, size_t count, const CUmemLocation *locations, size_t entries) {
  enum fikit_copy copy = FIKIT_COPY_OUT;
  size_t bytes = 0;
  for (size_t i = 0; locations && i < entries; i++)
    if (way_to_place(&locations[i]) == FIKIT_COPY_IN)
      copy = FIKIT_COPY_IN;
  for (size_t i = 0; sizes && i < count; i++)
    bytes += sizes[i];
  return fikit_copy_begin_move(stream, copy, bytes);
}

FIKIT_COPY_ASYNC(cuMemPrefetchAsync, (CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream stream), (pointer, bytes, device, stream),
                 fikit_copy_begin_move(stream_meant, way_to(device), bytes))
FIKIT_COPY_ASYNC(cuMemPrefetchAsync_v2, (CUdeviceptr pointer, size_t bytes, CUmemLocation location, unsigned flags, CUstream stream),
                 (pointer, bytes, location, flags, stream), fikit_copy_begin_move(stream_meant, way_to_place(&location), bytes))

#define MOVE_ARGS \
  CUdeviceptr *pointers, size_t *sizes, size_t count, CUmemLocation *locations, size_t *firsts, size_t entries, unsigned long long flags, CUstream stream
FIKIT_COPY_ASYNC(cuMemPrefetchBatchAsync, (MOVE_ARGS), (pointers, sizes, count, locations, firsts, entries, flags, stream),
                 begin_moves(stream_meant, sizes, count, locations, entries))
FIKIT_COPY_ASYNC(cuMemDiscardAndPrefetchBatchAsync, (MOVE_ARGS), (pointers, sizes, count, locations, firsts, entries, flags, stream),
                 begin_moves(stream_meant, sizes, count, locations, entries))

/* ---- decompression: its pieces say their sizes only when it is over */

static struct fikit_passing begin_decompression(CUstream stream, size_t count) {
  return (struct fikit_passing){.launch = fikit_fill_begin(stream, FIKIT_DECOMPRESSION, count, 1)};
}

FIKIT_COPY_ASYNC(cuMemBatchDecompressAsync, (void *pieces, size_t count, unsigned flags, size_t *failed, CUstream stream),
                 (pieces, count, flags, failed, stream), begin_decompression(stream_meant, count))
