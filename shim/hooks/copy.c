#include "hooks/copy.h"
#include "hooks/touches.h"
#include "streams/capture.h"
#include "base/clock.h"
#include "gate/marker.h"
#include "memory/convert.h"
#include "base/page.h"
#include "base/symbols.h"

struct fikit_copying fikit_copy_ask(struct fikit_stream *entry, CUstream stream, enum fikit_copy copy, size_t bytes) {
  struct fikit_copying copying = {.entry = entry, .stream = stream};
  struct fikit_device *device = entry->device;
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
void fikit_copy_granted(const struct fikit_copying *copying, bool complete) {
  if (complete)
    fikit_marker_skip(copying->device, 0, copying->request_seq);
  else
    fikit_marker_set(copying->device, copying->entry, copying->stream, 0, copying->request_seq);
}

/* Of ordinary host memory the driver knows nothing. Of converted memory (managed, but the program's device memory) it may name the place of the
 * page at this moment; that memory counts as the GPU's. */
static bool on_device(CUdeviceptr pointer) {
  if (fikit_is_converted(pointer))
    return true;
  unsigned type = CU_MEMORYTYPE_HOST;
  return REAL(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer) == CUDA_SUCCESS &&
         type != CU_MEMORYTYPE_HOST;
}

enum fikit_copy fikit_copy_between(CUdeviceptr to, CUdeviceptr from) {
  bool in = on_device(to);
  return in == on_device(from) ? FIKIT_COPY_NONE : in ? FIKIT_COPY_IN : FIKIT_COPY_OUT;
}

/* Asks the driver for the direction only where it matters. */
static struct fikit_copying begin_between(CUstream stream, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  const struct fikit_device *device = fikit_stream_of(stream)->device;
  fikit_touches_copied(stream, to, bytes);
  fikit_touches_copied(stream, from, bytes);
  bool matters = device && fikit_copies_matter(device->page);
  return fikit_copy_begin(stream, matters ? fikit_copy_between(to, from) : FIKIT_COPY_NONE, bytes);
}

static struct fikit_copying begin_in(CUstream stream, CUdeviceptr to, size_t bytes) {
  fikit_touches_copied(stream, to, bytes);
  return fikit_copy_begin(stream, FIKIT_COPY_IN, bytes);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  struct fikit_copying copying = begin_in(CU_STREAM_LEGACY, to, bytes);
  return fikit_copy_end(&copying, true, REAL(cuMemcpyHtoD_v2)(to, from, bytes));
}

CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t bytes) {
  struct fikit_copying copying = begin_in(CU_STREAM_PER_THREAD, to, bytes);
  return fikit_copy_end(&copying, true, REAL(cuMemcpyHtoD_v2_ptds)(to, from, bytes));
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  struct fikit_copying copying = begin_in(fikit_legacy(stream), to, bytes);
  return fikit_copy_end(&copying, false, REAL(cuMemcpyHtoDAsync_v2)(to, from, bytes, stream));
}

CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  struct fikit_copying copying = begin_in(fikit_per_thread(stream), to, bytes);
  return fikit_copy_end(&copying, false, REAL(cuMemcpyHtoDAsync_v2_ptsz)(to, from, bytes, stream));
}

static struct fikit_copying begin_out(CUstream stream, CUdeviceptr from, size_t bytes) {
  fikit_touches_copied(stream, from, bytes);
  return fikit_copy_begin(stream, FIKIT_COPY_OUT, bytes);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  struct fikit_copying copying = begin_out(fikit_legacy(stream), from, bytes);
  return fikit_copy_end(&copying, false, REAL(cuMemcpyDtoHAsync_v2)(to, from, bytes, stream));
}

CUresult cuMemcpyDtoHAsync_v2_ptsz(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  struct fikit_copying copying = begin_out(fikit_per_thread(stream), from, bytes);
  return fikit_copy_end(&copying, false, REAL(cuMemcpyDtoHAsync_v2_ptsz)(to, from, bytes, stream));
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  struct fikit_copying copying = begin_between(CU_STREAM_LEGACY, to, from, bytes);
  return fikit_copy_end(&copying, true, REAL(cuMemcpy)(to, from, bytes));
}

CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  struct fikit_copying copying = begin_between(CU_STREAM_PER_THREAD, to, from, bytes);
  return fikit_copy_end(&copying, true, REAL(cuMemcpy_ptds)(to, from, bytes));
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  struct fikit_copying copying = begin_between(fikit_legacy(stream), to, from, bytes);
  return fikit_copy_end(&copying, false, REAL(cuMemcpyAsync)(to, from, bytes, stream));
}

CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  struct fikit_copying copying = begin_between(fikit_per_thread(stream), to, from, bytes);
  return fikit_copy_end(&copying, false, REAL(cuMemcpyAsync_ptsz)(to, from, bytes, stream));
}
