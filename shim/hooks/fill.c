/* Memsets (hooks/fill.h). */
#include "hooks/fill.h"
#include "hooks/touches.h"
#include "base/symbols.h"

static const char *const names[FIKIT_FILLS] = {"memset", "copy within the device", "copy between contexts", "decompression"};

/* The next power of two stands for the length. */
static unsigned size_class(size_t bytes) {
  return bytes > 1 ? 64 - (unsigned)__builtin_clzll(bytes - 1) : 0;
}

static uintptr_t handle_of(enum fikit_fill fill) {
  const uintptr_t handle = (uintptr_t)&names[fill];
  if (__builtin_expect(!handle_map_get(&fikit_names, handle), 0))
    handle_map_put(&fikit_names, handle, (uintptr_t)fikit_name_of(names[fill], 0), 0);
  return handle;
}

struct fikit_launch fikit_fill_begin(CUstream stream, enum fikit_fill fill, size_t bytes, size_t rows) {
  const struct fikit_device *device = fikit_stream_of(stream)->device;
  if (!device || !fikit_fills_ask(device->page))
    return (struct fikit_launch){.entry = NULL};
  const struct fikit_shape shape = {{size_class(bytes), 1 + size_class(rows), 1}, {1, 1, 1}, 0, FIKIT_KIND_KERNEL, false};
  return fikit_launch_begin(stream, handle_of(fill), &shape);
}

static void touched_rows(CUstream stream, CUdeviceptr to, size_t pitch, size_t width, size_t height) {
  const struct fikit_range range = fikit_range_of(to, &(struct fikit_box){.pitch = pitch, .width = width, .height = height, .depth = 1});
  fikit_touches_copied(stream, range.at, range.bytes);
}

/* `touched`: says what memory it touches, before the call. `call`: the driver's function and arguments. */
#define FILL(to_stream, fill, bytes, touched, call)                                 \
  do {                                                                              \
    const CUstream fill_stream = to_stream;                                         \
    if (__builtin_expect(fikit_extents_any(), 0)) {                                 \
      touched;                                                                      \
    }                                                                               \
    const struct fikit_launch launch = fikit_fill_begin(fill_stream, fill, bytes, 1); \
    return fikit_launch_end(&launch, (call));                                       \
  } while (0)

/* The calls for elements of so many bits: of a row and of several, in each stream that a call can mean. */
#define FILLS(bits, type)                                                                                                                    \
  CUresult cuMemsetD##bits##_v2(CUdeviceptr to, type value, size_t count) {                                                                  \
    FILL(fikit_legacy(NULL), FIKIT_MEMSET, count * sizeof(type), fikit_touches_copied(fill_stream, to, count * sizeof(type)),                       \
         REAL(cuMemsetD##bits##_v2)(to, value, count));                                                                                      \
  }                                                                                                                                          \
  CUresult cuMemsetD##bits##_v2_ptds(CUdeviceptr to, type value, size_t count) {                                                             \
    FILL(fikit_per_thread(NULL), FIKIT_MEMSET, count * sizeof(type), fikit_touches_copied(fill_stream, to, count * sizeof(type)),                   \
         REAL(cuMemsetD##bits##_v2_ptds)(to, value, count));                                                                                 \
  }                                                                                                                                          \
  CUresult cuMemsetD##bits##Async(CUdeviceptr to, type value, size_t count, CUstream stream) {                                               \
    FILL(fikit_legacy(stream), FIKIT_MEMSET, count * sizeof(type), fikit_touches_copied(fill_stream, to, count * sizeof(type)),                     \
         REAL(cuMemsetD##bits##Async)(to, value, count, stream));                                                                            \
  }                                                                                                                                          \
  CUresult cuMemsetD##bits##Async_ptsz(CUdeviceptr to, type value, size_t count, CUstream stream) {                                          \
    FILL(fikit_per_thread(stream), FIKIT_MEMSET, count * sizeof(type), fikit_touches_copied(fill_stream, to, count * sizeof(type)),                 \
         REAL(cuMemsetD##bits##Async_ptsz)(to, value, count, stream));                                                                       \
  }                                                                                                                                          \
  CUresult cuMemsetD2D##bits##_v2(CUdeviceptr to, size_t pitch, type value, size_t width, size_t height) {                                   \
    FILL(fikit_legacy(NULL), FIKIT_MEMSET, width * height * sizeof(type), touched_rows(fill_stream, to, pitch, width * sizeof(type), height),       \
         REAL(cuMemsetD2D##bits##_v2)(to, pitch, value, width, height));                                                                     \
  }                                                                                                                                          \
  CUresult cuMemsetD2D##bits##_v2_ptds(CUdeviceptr to, size_t pitch, type value, size_t width, size_t height) {                              \
    FILL(fikit_per_thread(NULL), FIKIT_MEMSET, width * height * sizeof(type), touched_rows(fill_stream, to, pitch, width * sizeof(type), height),   \
         REAL(cuMemsetD2D##bits##_v2_ptds)(to, pitch, value, width, height));                                                                \
  }                                                                                                                                          \
  CUresult cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, type value, size_t width, size_t height,                                   \
                                    CUstream stream) {                                                                                       \
    FILL(fikit_legacy(stream), FIKIT_MEMSET, width * height * sizeof(type), touched_rows(fill_stream, to, pitch, width * sizeof(type), height),     \
         REAL(cuMemsetD2D##bits##Async)(to, pitch, value, width, height, stream));                                                           \
  }                                                                                                                                          \
  CUresult cuMemsetD2D##bits##Async_ptsz(CUdeviceptr to, size_t pitch, type value, size_t width, size_t height,                              \
                                         CUstream stream) {                                                                                  \
    FILL(fikit_per_thread(stream), FIKIT_MEMSET, width * height * sizeof(type), touched_rows(fill_stream, to, pitch, width * sizeof(type), height), \
         REAL(cuMemsetD2D##bits##Async_ptsz)(to, pitch, value, width, height, stream));                                                      \
  }

FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned)
