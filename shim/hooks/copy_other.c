/* Copies that pass whatever the gate says, of boxes, in batches and between contexts: which memory they touch is learnt. */
#include "hooks/touches.h"
#include "streams/stream.h"
#include "base/memory_abi.h"
#include "base/symbols.h"

/* Before the driver's call: what it touches. */
static void touches_box(CUstream stream, const CUDA_MEMCPY3D *copy) {
  struct fikit_range ranges[2];
  if (__builtin_expect(!fikit_extents_any(), 1) || !copy)
    return;
  const unsigned count = fikit_ranges_of_copy(copy, ranges);
  for (unsigned i = 0; i < count; i++)
    fikit_touches_remember(stream, &ranges[i]);
}

static void touches_both(CUstream stream, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  fikit_touches_copied(stream, to, bytes);
  fikit_touches_copied(stream, from, bytes);
}

/* More than that of one launch is not learnt (touches.c). */
static void touches_batch(CUstream stream, const CUdeviceptr *to, const CUdeviceptr *from, const size_t *sizes, size_t count) {
  enum { MOST = 64 };
  if (__builtin_expect(!fikit_extents_any(), 1) || !to || !from || !sizes)
    return;
  for (size_t i = 0; i < count && i < MOST; i++)
    touches_both(stream, to[i], from[i], sizes[i]);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy) {
  touches_box(CU_STREAM_LEGACY, copy);
  return REAL(cuMemcpy3D_v2)(copy);
}

CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *copy) {
  touches_box(CU_STREAM_PER_THREAD, copy);
  return REAL(cuMemcpy3D_v2_ptds)(copy);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream) {
  touches_box(fikit_legacy(stream), copy);
  return REAL(cuMemcpy3DAsync_v2)(copy, stream);
}

CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *copy, CUstream stream) {
  touches_box(fikit_per_thread(stream), copy);
  return REAL(cuMemcpy3DAsync_v2_ptsz)(copy, stream);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D *copy) {
  touches_box(CU_STREAM_LEGACY, copy);
  return REAL(cuMemcpy3DPeer)(copy);
}

CUresult cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D *copy) {
  touches_box(CU_STREAM_PER_THREAD, copy);
  return REAL(cuMemcpy3DPeer_ptds)(copy);
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D *copy, CUstream stream) {
  touches_box(fikit_legacy(stream), copy);
  return REAL(cuMemcpy3DPeerAsync)(copy, stream);
}

CUresult cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D *copy, CUstream stream) {
  touches_box(fikit_per_thread(stream), copy);
  return REAL(cuMemcpy3DPeerAsync_ptsz)(copy, stream);
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes) {
  touches_both(CU_STREAM_LEGACY, to, from, bytes);
  return REAL(cuMemcpyPeer)(to, to_context, from, from_context, bytes);
}

CUresult cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes) {
  touches_both(CU_STREAM_PER_THREAD, to, from, bytes);
  return REAL(cuMemcpyPeer_ptds)(to, to_context, from, from_context, bytes);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream) {
  touches_both(fikit_legacy(stream), to, from, bytes);
  return REAL(cuMemcpyPeerAsync)(to, to_context, from, from_context, bytes, stream);
}

CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                                CUstream stream) {
  touches_both(fikit_per_thread(stream), to, from, bytes);
  return REAL(cuMemcpyPeerAsync_ptsz)(to, to_context, from, from_context, bytes, stream);
}

/* Attributes are the driver's business: which end is where, and in which order they are read. */
CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, void *attributes, size_t *firsts, size_t entries,
                            size_t *failed, CUstream stream) {
  touches_batch(fikit_legacy(stream), to, from, sizes, count);
  return REAL(cuMemcpyBatchAsync)(to, from, sizes, count, attributes, firsts, entries, failed, stream);
}

CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, void *attributes, size_t *firsts,
                                 size_t entries, size_t *failed, CUstream stream) {
  touches_batch(fikit_per_thread(stream), to, from, sizes, count);
  return REAL(cuMemcpyBatchAsync_ptsz)(to, from, sizes, count, attributes, firsts, entries, failed, stream);
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, void *attributes, size_t *firsts,
                               size_t entries, CUstream stream) {
  touches_batch(fikit_legacy(stream), to, from, sizes, count);
  return REAL(cuMemcpyBatchAsync_v2)(to, from, sizes, count, attributes, firsts, entries, stream);
}

CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, void *attributes, size_t *firsts,
                                    size_t entries, CUstream stream) {
  touches_batch(fikit_per_thread(stream), to, from, sizes, count);
  return REAL(cuMemcpyBatchAsync_v2_ptsz)(to, from, sizes, count, attributes, firsts, entries, stream);
}
