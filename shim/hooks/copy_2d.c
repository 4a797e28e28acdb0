/* Copies of rectangles: which way they go stands in their arguments, or the driver finds out. */
#include "hooks/copy.h"
#include "hooks/touches.h"
#include "base/symbols.h"

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

static struct fikit_end end_of(int type, const void *host, CUdeviceptr device) {
  return (struct fikit_end){type, type == CU_MEMORYTYPE_HOST ? (CUdeviceptr)host : type == CU_MEMORYTYPE_ARRAY ? 0 : device};
}

static struct fikit_passing begin(CUstream stream, const CUDA_MEMCPY2D *copy) {
  if (!copy)
    return (struct fikit_passing){.launch = {.entry = NULL}};
  if (fikit_extents_any())
    touches(stream, copy);
  return fikit_copy_begin(stream, end_of(copy->dstMemoryType, copy->dstHost, copy->dstDevice),
                          end_of(copy->srcMemoryType, copy->srcHost, copy->srcDevice), copy->WidthInBytes * copy->Height, copy->Height);
}

FIKIT_COPY_SYNC(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *copy), (copy), begin(stream_meant, copy))
FIKIT_COPY_SYNC(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *copy), (copy), begin(stream_meant, copy))
FIKIT_COPY_ASYNC(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream), (copy, stream), begin(stream_meant, copy))
