/* Host synchronisation. It is never held, except a long copy that synchronises; what it proves to be complete is reported. */
#include "base/clock.h"
#include "hooks/complete.h"
#include "hooks/copy.h"
#include "memory/late_free.h"
#include "base/symbols.h"

static CUresult drained(struct fikit_stream *stream, uint64_t issued, int64_t began_ns, CUresult result) {
  if (stream->device && result == CUDA_SUCCESS)
    fikit_complete_stream(stream, issued, began_ns);
  return result;
}

static uint64_t issued_on(struct fikit_stream *stream) {
  return atomic_load_explicit(&stream->issued, memory_order_acquire);
}

static int64_t now_ns(const struct fikit_stream *stream) {
  return stream->device ? fikit_now_ns() : 0;
}

/* `call`: the driver's function and arguments, evaluated after the launches were counted. */
#define WAITING(handle, call)                             \
  do {                                                    \
    struct fikit_stream *entry = fikit_stream_of(handle); \
    uint64_t issued = issued_on(entry);                   \
    int64_t began_ns = now_ns(entry);                     \
    return drained(entry, issued, began_ns, (call));      \
  } while (0)

/* A query: the host may do other things between two queries, so it is not known for how long it has waited. */
#define ASKING(handle, call)                              \
  do {                                                    \
    struct fikit_stream *entry = fikit_stream_of(handle); \
    uint64_t issued = issued_on(entry);                   \
    return drained(entry, issued, 0, (call));             \
  } while (0)

CUresult cuStreamSynchronize(CUstream stream) {
  WAITING(fikit_legacy(stream), REAL(cuStreamSynchronize)(stream));
}

CUresult cuStreamSynchronize_ptsz(CUstream stream) {
  WAITING(fikit_per_thread(stream), REAL(cuStreamSynchronize_ptsz)(stream));
}

CUresult cuStreamQuery(CUstream stream) {
  ASKING(fikit_legacy(stream), REAL(cuStreamQuery)(stream));
}

CUresult cuStreamQuery_ptsz(CUstream stream) {
  ASKING(fikit_per_thread(stream), REAL(cuStreamQuery_ptsz)(stream));
}

/* A synchronous copy to the host returns when the default stream, to which it belongs, has completed it. */
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  const struct fikit_passing passing = fikit_copy_begin_flat(CU_STREAM_LEGACY, FIKIT_HOST(to), FIKIT_DEVICE(from), bytes);
  WAITING(CU_STREAM_LEGACY, fikit_copy_end(&passing, true, REAL(cuMemcpyDtoH_v2)(to, from, bytes)));
}

CUresult cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t bytes) {
  const struct fikit_passing passing = fikit_copy_begin_flat(CU_STREAM_PER_THREAD, FIKIT_HOST(to), FIKIT_DEVICE(from), bytes);
  WAITING(CU_STREAM_PER_THREAD, fikit_copy_end(&passing, true, REAL(cuMemcpyDtoH_v2_ptds)(to, from, bytes)));
}

static CUresult synchronize_all(CUresult (*synchronize)(CUcontext ctx), CUcontext ctx) {
  struct fikit_drain drain;
  const struct fikit_stream *entry = fikit_stream_of(CU_STREAM_LEGACY);
  const bool managed = entry->device != NULL;
  const uint64_t frees = managed ? fikit_late_frees_newest() : 0;
  if (managed)
    fikit_drain_begin(&drain, entry);
  CUresult result = synchronize(ctx);
  if (managed && result == CUDA_SUCCESS) {
    fikit_complete_context(&drain);
    fikit_late_frees_synchronised(drain.context, frees);
  }
  return result;
}

static CUresult synchronize_current(CUcontext ctx) {
  (void)ctx;
  return REAL(cuCtxSynchronize)();
}

CUresult cuCtxSynchronize(void) {
  return synchronize_all(synchronize_current, NULL);
}

/* A context other than the current one may be on another GPU: nothing is concluded from it. */
CUresult cuCtxSynchronize_v2(CUcontext ctx) {
  CUcontext current = NULL;
  if (ctx && (REAL(cuCtxGetCurrent)(&current) != CUDA_SUCCESS || current != ctx))
    return REAL(cuCtxSynchronize_v2)(ctx);
  return synchronize_all(REAL(cuCtxSynchronize_v2), ctx);
}
