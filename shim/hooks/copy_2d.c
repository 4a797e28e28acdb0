/* Copies of rectangles: which way they go stands in their arguments. */
#include "hooks/copy.h"
#include "hooks/touches.h"
#include "base/symbols.h"

/* Where the arguments leave it to the driver to find out the direction, the copy passes unasked. */
static enum fikit_copy way_of(const CUDA_MEMCPY2D *copy) {
  int from = copy->srcMemoryType, to = copy->dstMemoryType;
  bool from_device = from == CU_MEMORYTYPE_DEVICE || from == CU_MEMORYTYPE_ARRAY;
  bool to_device = to == CU_MEMORYTYPE_DEVICE || to == CU_MEMORYTYPE_ARRAY;
  if (from == CU_MEMORYTYPE_HOST && to_device)
    return FIKIT_COPY_IN;
  return from_device && to == CU_MEMORYTYPE_HOST ? FIKIT_COPY_OUT : FIKIT_COPY_NONE;
}

static bool may_be_on_device(int type) {
  return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

static void touches(CUstream stream, const CUDA_MEMCPY2D *copy) {
  const struct fikit_box from = {copy->srcXInBytes, copy->srcY, 0, copy->srcPitch, 0, copy->WidthInBytes, copy->Height, 1};
  const struct fikit_box to = {copy->dstXInBytes, copy->dstY, 0, copy->dstPitch, 0, copy->WidthInBytes, copy->Height, 1};
  const struct fikit_range read = fikit_range_of(copy->srcDevice, &from), written = fikit_range_of(copy->dstDevice, &to);
  if (may_be_on_device(copy->srcMemoryType))
    fikit_touches_remember(stream, &read);
  if (may_be_on_device(copy->dstMemoryType))
    fikit_touches_remember(stream, &written);
}

static struct fikit_copying begin(CUstream stream, const CUDA_MEMCPY2D *copy) {
  if (copy && fikit_extents_any())
    touches(stream, copy);
  return copy ? fikit_copy_begin(stream, way_of(copy), copy->WidthInBytes * copy->Height)
              : (struct fikit_copying){.device = NULL};
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy) {
  struct fikit_copying copying = begin(CU_STREAM_LEGACY, copy);
  return fikit_copy_end(&copying, true, REAL(cuMemcpy2D_v2)(copy));
}

CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *copy) {
  struct fikit_copying copying = begin(CU_STREAM_PER_THREAD, copy);
  return fikit_copy_end(&copying, true, REAL(cuMemcpy2D_v2_ptds)(copy));
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy) {
  struct fikit_copying copying = begin(CU_STREAM_LEGACY, copy);
  return fikit_copy_end(&copying, true, REAL(cuMemcpy2DUnaligned_v2)(copy));
}

CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *copy) {
  struct fikit_copying copying = begin(CU_STREAM_PER_THREAD, copy);
  return fikit_copy_end(&copying, true, REAL(cuMemcpy2DUnaligned_v2_ptds)(copy));
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream) {
  struct fikit_copying copying = begin(fikit_legacy(stream), copy);
  return fikit_copy_end(&copying, false, REAL(cuMemcpy2DAsync_v2)(copy, stream));
}

CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *copy, CUstream stream) {
  struct fikit_copying copying = begin(fikit_per_thread(stream), copy);
  return fikit_copy_end(&copying, false, REAL(cuMemcpy2DAsync_v2_ptsz)(copy, stream));
}
