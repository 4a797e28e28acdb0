#include "hooks/copy.h"
#include "streams/capture.h"
#include "base/clock.h"
#include "gate/marker.h"
#include "memory/convert.h"
#include "memory/device_memory.h"
#include "base/page.h"
#include "base/symbols.h"

/* Of a copy to the device or from it, where copies matter. */
static struct fikit_copying ask(CUstream stream, enum fikit_copy copy, size_t bytes) {
  struct fikit_stream *entry = fikit_stream_of(stream);
  struct fikit_device *device = entry->device;
  struct fikit_copying copying = {.entry = entry, .stream = stream};
  struct fikit_page *page = device->page;
  if (page->version < FIKIT_SINCE_COPIES || (fikit_capture_anywhere() && fikit_stream_captures(stream)))
    return copying;
  if (fikit_copy_asks(page, copy, bytes)) {
    struct fikit_pass pass = fikit_gate_wait_to_copy(device, copy, bytes);
    if (pass.kind == FIKIT_ENTRY_GRANTED) {
      copying.device = device;
      copying.request_seq = pass.request_seq;
    }
  }
  fikit_page_put(page, FIKIT_ENTRY_COPY, copy, bytes, fikit_now_ns());
  return copying;
}

/* fikitd learns how long copies take. */
static void granted(const struct fikit_copying *copying, bool complete) {
  if (complete)
    fikit_marker_skip(copying->device, 0, copying->request_seq);
  else
    fikit_marker_set(copying->device, copying->entry, copying->stream, 0, copying->request_seq);
}

CUresult fikit_copy_over(const struct fikit_passing *passing, bool waits, CUresult result) {
  struct fikit_launch launch = passing->launch;
  if (passing->copying.device)
    granted(&passing->copying, waits || result != CUDA_SUCCESS);
  launch.waits = waits;
  return fikit_launch_end(&launch, result);
}

/* Of ordinary host memory the driver knows nothing. Of converted memory (managed, but the program's device memory) it may name the place of the
 * page at this moment; that memory counts as the GPU's. */
static bool driver_says_device(CUdeviceptr pointer) {
  if (fikit_is_converted(pointer))
    return true;
  unsigned type = CU_MEMORYTYPE_HOST;
  return REAL(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer) == CUDA_SUCCESS &&
         type != CU_MEMORYTYPE_HOST;
}

enum side { ON_HOST, ON_DEVICE, NOT_KNOWN };

/* A call may name memory of the device as the host's: the driver goes by the address. */
static enum side side_of(struct fikit_end end, bool may_ask) {
  if (end.type == CU_MEMORYTYPE_DEVICE || end.type == CU_MEMORYTYPE_ARRAY || fikit_device_memory_has(end.at))
    return ON_DEVICE;
  if (end.type == CU_MEMORYTYPE_HOST)
    return ON_HOST;
  return !may_ask ? NOT_KNOWN : driver_says_device(end.at) ? ON_DEVICE : ON_HOST;
}

/* NONE and `within` false: nobody asks about it. */
static enum fikit_copy way_of(const struct fikit_device *device, struct fikit_end to, struct fikit_end from, bool *within) {
  const bool matters = fikit_copies_matter(device->page);
  const enum side target = side_of(to, matters), source = side_of(from, matters);
  *within = target == ON_DEVICE && source == ON_DEVICE;
  if (!matters || target == source)
    return FIKIT_COPY_NONE;
  return target == ON_DEVICE ? FIKIT_COPY_IN : FIKIT_COPY_OUT;
}

struct fikit_passing fikit_copy_look(CUstream stream, struct fikit_end to, struct fikit_end from, size_t bytes, size_t rows) {
  bool within;
  const enum fikit_copy copy = way_of(fikit_stream_of(stream)->device, to, from, &within);
  if (within)
    return (struct fikit_passing){.launch = fikit_fill_begin(stream, FIKIT_COPY_WITHIN, bytes, rows)};
  return fikit_copy_begin_move(stream, copy, bytes);
}

struct fikit_passing fikit_copy_begin_move(CUstream stream, enum fikit_copy copy, size_t bytes) {
  const struct fikit_device *device = fikit_stream_of(stream)->device;
  struct fikit_passing passing = {.launch = {.entry = NULL}};
  if (device && copy != FIKIT_COPY_NONE && fikit_copies_matter(device->page))
    passing.copying = ask(stream, copy, bytes);
  return passing;
}

void fikit_copies_add(struct fikit_copies *copies, CUstream stream, struct fikit_end to, struct fikit_end from, size_t bytes, size_t rows) {
  const struct fikit_device *device = fikit_stream_of(stream)->device;
  bool within;
  if (!device)
    return;
  const enum fikit_copy copy = way_of(device, to, from, &within);
  if (within || copy != FIKIT_COPY_NONE)
    copies->bytes[copy] += bytes;
  copies->rows += rows;
}

/* Of those between host and device the longer way asks. */
struct fikit_passing fikit_copies_begin(CUstream stream, const struct fikit_copies *copies) {
  const size_t in = copies->bytes[FIKIT_COPY_IN], out = copies->bytes[FIKIT_COPY_OUT];
  if (copies->bytes[FIKIT_COPY_NONE])
    return (struct fikit_passing){.launch = fikit_fill_begin(stream, FIKIT_COPY_WITHIN, copies->bytes[FIKIT_COPY_NONE] + in + out, copies->rows)};
  return fikit_copy_begin_move(stream, in + out == 0 ? FIKIT_COPY_NONE : in >= out ? FIKIT_COPY_IN : FIKIT_COPY_OUT, in >= out ? in : out);
}

/* ---- copies of one piece of memory */

#define FLAT(to, from) fikit_copy_begin_flat(stream_meant, to, from, bytes)

FIKIT_COPY_SYNC(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes), (to, from, bytes), FLAT(FIKIT_DEVICE(to), FIKIT_HOST(from)))
FIKIT_COPY_ASYNC(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream), (to, from, bytes, stream),
                 FLAT(FIKIT_DEVICE(to), FIKIT_HOST(from)))
FIKIT_COPY_ASYNC(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, stream),
                 FLAT(FIKIT_HOST(to), FIKIT_DEVICE(from)))
FIKIT_COPY_SYNC(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes), FLAT(FIKIT_DEVICE(to), FIKIT_DEVICE(from)))
FIKIT_COPY_ASYNC(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, stream),
                 FLAT(FIKIT_DEVICE(to), FIKIT_DEVICE(from)))
FIKIT_COPY_SYNC(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes), FLAT(FIKIT_ANY(to), FIKIT_ANY(from)))
FIKIT_COPY_ASYNC(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, stream),
                 FLAT(FIKIT_ANY(to), FIKIT_ANY(from)))
FIKIT_COPY_ASYNC(cuMemcpyWithAttributesAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, void *attributes, CUstream stream),
                 (to, from, bytes, attributes, stream), FLAT(FIKIT_ANY(to), FIKIT_ANY(from)))

/* ---- to arrays and from them */

FIKIT_COPY_SYNC(cuMemcpyAtoA_v2, (CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes), (to, to_offset, from, from_offset, bytes),
                FLAT(FIKIT_ARRAY, FIKIT_ARRAY))
FIKIT_COPY_SYNC(cuMemcpyAtoD_v2, (CUdeviceptr to, CUarray from, size_t offset, size_t bytes), (to, from, offset, bytes),
                FLAT(FIKIT_DEVICE(to), FIKIT_ARRAY))
FIKIT_COPY_SYNC(cuMemcpyDtoA_v2, (CUarray to, size_t offset, CUdeviceptr from, size_t bytes), (to, offset, from, bytes),
                FLAT(FIKIT_ARRAY, FIKIT_DEVICE(from)))
FIKIT_COPY_SYNC(cuMemcpyAtoH_v2, (void *to, CUarray from, size_t offset, size_t bytes), (to, from, offset, bytes), FLAT(FIKIT_HOST(to), FIKIT_ARRAY))
FIKIT_COPY_ASYNC(cuMemcpyAtoHAsync_v2, (void *to, CUarray from, size_t offset, size_t bytes, CUstream stream), (to, from, offset, bytes, stream),
                 FLAT(FIKIT_HOST(to), FIKIT_ARRAY))
FIKIT_COPY_SYNC(cuMemcpyHtoA_v2, (CUarray to, size_t offset, const void *from, size_t bytes), (to, offset, from, bytes),
                FLAT(FIKIT_ARRAY, FIKIT_HOST(from)))
FIKIT_COPY_ASYNC(cuMemcpyHtoAAsync_v2, (CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream), (to, offset, from, bytes, stream),
                 FLAT(FIKIT_ARRAY, FIKIT_HOST(from)))
