/* CUDA arrays. The driver does not say how large one is: the elements are counted, without its padding. */
#include "memory/allocation.h"
#include "base/symbols.h"

/* By CUarray_format: block-compressed formats (0x91-0x9e) take a byte for each texel or half of one, video formats
 * (0x9f-0xbf) two or less; the others have channels of one size. */
static uint64_t texel_bytes(int format, unsigned channels) {
  const uint64_t count = channels ? channels : 1;
  if (format >= 0x91 && format <= 0x9e)
    return 1;
  if (format >= 0x9f && format <= 0xbf)
    return 2;
  switch (format) {
  case 0x02: /* integers of 16 bits, half */
  case 0x09:
  case 0x10:
  case 0xc3: /* the same, normalised */
  case 0xc4:
  case 0xc5:
  case 0xc9:
  case 0xca:
  case 0xcb: return 2 * count;
  case 0x03: /* integers of 32 bits, float */
  case 0x0a:
  case 0x20: return 4 * count;
  default: return count;
  }
}

static uint64_t times(uint64_t a, uint64_t b) {
  return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

/* A height or depth of 0 means one dimension less. */
static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned level) {
  const bool layered = shape->flags & 1; /* the layers do not shrink */
  const uint64_t width = shape->width >> level, height = shape->height >> level;
  const uint64_t depth = layered ? shape->depth : shape->depth >> level;
  const uint64_t texels = times(times(width ? width : 1, height ? height : 1), depth ? depth : 1);
  return times(texels, texel_bytes(shape->format, shape->channels));
}

/* Without memory of its own: what is mapped into it was counted when it was created (physical.c). */
static bool without_memory(const CUDA_ARRAY3D_DESCRIPTOR *shape) {
  return shape->flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING);
}

static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels) {
  uint64_t sum = 0;
  if (without_memory(shape))
    return 0;
  for (unsigned level = 0; level < levels && level < 64; level++) {
    const uint64_t bytes = level_bytes(shape, level);
    sum = bytes > UINT64_MAX - sum ? UINT64_MAX : sum + bytes;
  }
  return sum;
}

static CUDA_ARRAY3D_DESCRIPTOR flat(size_t width, size_t height, int format, unsigned channels) {
  return (CUDA_ARRAY3D_DESCRIPTOR){width, height, 0, format, channels, 0};
}

CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *shape) {
  if (!shape)
    return REAL(cuArrayCreate)(array, shape);
  const CUDA_ARRAY3D_DESCRIPTOR same = flat(shape->width, shape->height, shape->format, shape->channels);
  FIKIT_ALLOCATE(fikit_place_current(), array_bytes(&same, 1), *array, REAL(cuArrayCreate)(array, shape));
}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape) {
  if (!shape)
    return REAL(cuArrayCreate_v2)(array, shape);
  const CUDA_ARRAY3D_DESCRIPTOR same = flat(shape->width, shape->height, shape->format, shape->channels);
  FIKIT_ALLOCATE(fikit_place_current(), array_bytes(&same, 1), *array, REAL(cuArrayCreate_v2)(array, shape));
}

CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *shape) {
  if (!shape)
    return REAL(cuArray3DCreate)(array, shape);
  const CUDA_ARRAY3D_DESCRIPTOR same = {shape->width,  shape->height,   shape->depth,
                                        shape->format, shape->channels, shape->flags};
  FIKIT_ALLOCATE(fikit_place_current(), array_bytes(&same, 1), *array, REAL(cuArray3DCreate)(array, shape));
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape) {
  if (!shape)
    return REAL(cuArray3DCreate_v2)(array, shape);
  FIKIT_ALLOCATE(fikit_place_current(), array_bytes(shape, 1), *array, REAL(cuArray3DCreate_v2)(array, shape));
}

CUresult cuArrayDestroy(CUarray array) {
  FIKIT_FREE(array, REAL(cuArrayDestroy)(array));
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels) {
  if (!shape)
    return REAL(cuMipmappedArrayCreate)(array, shape, levels);
  FIKIT_ALLOCATE(fikit_place_current(), array_bytes(shape, levels), *array,
                 REAL(cuMipmappedArrayCreate)(array, shape, levels));
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  FIKIT_FREE(array, REAL(cuMipmappedArrayDestroy)(array));
}
