/*
 * Memsets and copies within the device. They run on the device like kernels, and where processes take turns even a short one costs a turn. There
 * they pass the gate as launches, each size class as a kernel of its own. The page's fills_ask says whether; elsewhere they only read it.
 */
#include "hooks/launch.h"
#include "hooks/touches.h"
#include "base/symbols.h"

struct kind {
  const char *name;
};
static const struct kind fill = {"memset"}, within = {"copy within the device"};

static inline bool asks(CUstream stream) {
  const struct fikit_device *device = fikit_stream_of(stream)->device;
  return device && fikit_fills_ask(device->page);
}

/* The next power of two stands for the length, as a grid. */
static struct fikit_shape size_class(size_t bytes) {
  const unsigned class = bytes > 1 ? 64 - (unsigned)__builtin_clzll(bytes - 1) : 0;
  return (struct fikit_shape){{class, 1, 1}, {1, 1, 1}, 0, FIKIT_KIND_KERNEL, false};
}

static uintptr_t handle_of(const struct kind *kind) {
  const uintptr_t handle = (uintptr_t)kind;
  if (__builtin_expect(!handle_map_get(&fikit_names, handle), 0))
    handle_map_put(&fikit_names, handle, (uintptr_t)fikit_name_of(kind->name, 0), 0);
  return handle;
}

static void touched_rows(CUstream stream, CUdeviceptr to, size_t pitch, size_t width, size_t height) {
  const struct fikit_range range = fikit_range_of(to, &(struct fikit_box){.pitch = pitch, .width = width, .height = height, .depth = 1});
  fikit_touches_copied(stream, range.at, range.bytes);
}

/* `touched`: says what memory it touches, before the call: where it is a launch that is its own. `call`: the driver's function and arguments. */
#define FILL(to_stream, kind, bytes, touched, call)                                            \
  do {                                                                                         \
    const CUstream fill_stream = to_stream;                                                    \
    if (__builtin_expect(fikit_extents_any(), 0)) {                                            \
      touched;                                                                                 \
    }                                                                                          \
    if (!asks(fill_stream))                                                                    \
      return (call);                                                                           \
    const struct fikit_shape shape = size_class(bytes);                                        \
    const struct fikit_launch launch = fikit_launch_begin(fill_stream, handle_of(kind), &shape); \
    return fikit_launch_end(&launch, (call));                                                  \
  } while (0)

/* The calls for elements of so many bits: of a row and of several, in each stream that a call can mean. */
#define FILLS(bits, type)                                                                                                                    \
  CUresult cuMemsetD##bits##_v2(CUdeviceptr to, type value, size_t count) {                                                                  \
    FILL(fikit_legacy(NULL), &fill, count * sizeof(type), fikit_touches_copied(fill_stream, to, count * sizeof(type)),                       \
         REAL(cuMemsetD##bits##_v2)(to, value, count));                                                                                      \
  }                                                                                                                                          \
  CUresult cuMemsetD##bits##_v2_ptds(CUdeviceptr to, type value, size_t count) {                                                             \
    FILL(fikit_per_thread(NULL), &fill, count * sizeof(type), fikit_touches_copied(fill_stream, to, count * sizeof(type)),                   \
         REAL(cuMemsetD##bits##_v2_ptds)(to, value, count));                                                                                 \
  }                                                                                                                                          \
  CUresult cuMemsetD##bits##Async(CUdeviceptr to, type value, size_t count, CUstream stream) {                                               \
    FILL(fikit_legacy(stream), &fill, count * sizeof(type), fikit_touches_copied(fill_stream, to, count * sizeof(type)),                     \
         REAL(cuMemsetD##bits##Async)(to, value, count, stream));                                                                            \
  }                                                                                                                                          \
  CUresult cuMemsetD##bits##Async_ptsz(CUdeviceptr to, type value, size_t count, CUstream stream) {                                          \
    FILL(fikit_per_thread(stream), &fill, count * sizeof(type), fikit_touches_copied(fill_stream, to, count * sizeof(type)),                 \
         REAL(cuMemsetD##bits##Async_ptsz)(to, value, count, stream));                                                                       \
  }                                                                                                                                          \
  CUresult cuMemsetD2D##bits##_v2(CUdeviceptr to, size_t pitch, type value, size_t width, size_t height) {                                   \
    FILL(fikit_legacy(NULL), &fill, width * height * sizeof(type), touched_rows(fill_stream, to, pitch, width * sizeof(type), height),       \
         REAL(cuMemsetD2D##bits##_v2)(to, pitch, value, width, height));                                                                     \
  }                                                                                                                                          \
  CUresult cuMemsetD2D##bits##_v2_ptds(CUdeviceptr to, size_t pitch, type value, size_t width, size_t height) {                              \
    FILL(fikit_per_thread(NULL), &fill, width * height * sizeof(type), touched_rows(fill_stream, to, pitch, width * sizeof(type), height),   \
         REAL(cuMemsetD2D##bits##_v2_ptds)(to, pitch, value, width, height));                                                                \
  }                                                                                                                                          \
  CUresult cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, type value, size_t width, size_t height,                                   \
                                    CUstream stream) {                                                                                       \
    FILL(fikit_legacy(stream), &fill, width * height * sizeof(type), touched_rows(fill_stream, to, pitch, width * sizeof(type), height),     \
         REAL(cuMemsetD2D##bits##Async)(to, pitch, value, width, height, stream));                                                           \
  }                                                                                                                                          \
  CUresult cuMemsetD2D##bits##Async_ptsz(CUdeviceptr to, size_t pitch, type value, size_t width, size_t height,                              \
                                         CUstream stream) {                                                                                  \
    FILL(fikit_per_thread(stream), &fill, width * height * sizeof(type), touched_rows(fill_stream, to, pitch, width * sizeof(type), height), \
         REAL(cuMemsetD2D##bits##Async_ptsz)(to, pitch, value, width, height, stream));                                                      \
  }

FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned)

static void touched_both(CUstream stream, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  fikit_touches_copied(stream, to, bytes);
  fikit_touches_copied(stream, from, bytes);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  FILL(fikit_legacy(NULL), &within, bytes, touched_both(fill_stream, to, from, bytes), REAL(cuMemcpyDtoD_v2)(to, from, bytes));
}

CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  FILL(fikit_per_thread(NULL), &within, bytes, touched_both(fill_stream, to, from, bytes), REAL(cuMemcpyDtoD_v2_ptds)(to, from, bytes));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  FILL(fikit_legacy(stream), &within, bytes, touched_both(fill_stream, to, from, bytes), REAL(cuMemcpyDtoDAsync_v2)(to, from, bytes, stream));
}

CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  FILL(fikit_per_thread(stream), &within, bytes, touched_both(fill_stream, to, from, bytes), REAL(cuMemcpyDtoDAsync_v2_ptsz)(to, from, bytes, stream));
}
