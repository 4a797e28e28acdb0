/* Copies between host and device. A copy engine serves all processes, one copy after the other. So a long copy asks at a closed gate where fikitd
 * wants that, and all copies are reported while a job of another priority shares the GPU. */
#ifndef FIKIT_SHIM_COPY_H
#define FIKIT_SHIM_COPY_H

#include "gate/gate.h"
#include "streams/stream.h"

struct fikit_copying {
  struct fikit_device *device; /* NULL: nothing to do afterwards */
  struct fikit_stream *entry;
  CUstream stream;
  uint32_t request_seq;
};

/* The part of fikit_copy_begin() for copies that ask or are reported. */
struct fikit_copying fikit_copy_ask(struct fikit_stream *entry, CUstream stream, enum fikit_copy copy, size_t bytes);

/* Before and after a copy on this stream (NULL not allowed). NONE: neither to the device nor to the host. */
static inline struct fikit_copying fikit_copy_begin(CUstream stream, enum fikit_copy copy, size_t bytes) {
  struct fikit_stream *entry = fikit_stream_of(stream);
  if (__builtin_expect(!entry->device || !fikit_copies_matter(entry->device->page) || copy == FIKIT_COPY_NONE, 1))
    return (struct fikit_copying){.device = NULL};
  return fikit_copy_ask(entry, stream, copy, bytes);
}

/* `complete`: the call returns when the copy is. */
void fikit_copy_granted(const struct fikit_copying *copying, bool complete);

static inline CUresult fikit_copy_end(const struct fikit_copying *copying, bool waits, CUresult result) {
  if (__builtin_expect(copying->device != NULL, 0))
    fikit_copy_granted(copying, waits || result != CUDA_SUCCESS);
  return result;
}

/* The direction of a copy, by what the driver knows of the memory at its ends. */
enum fikit_copy fikit_copy_between(CUdeviceptr to, CUdeviceptr from);

#endif
