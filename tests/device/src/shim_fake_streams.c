/* Streams, events and captures of the stand-in libcuda.so.1. */
#include "shim_fake_cuda.h"

#include <float.h>

API CUresult cuStreamCreate(void **stream, unsigned flags) {
  static uintptr_t next = 0x500000;
  (void)flags;
  *stream = (void *)(next += 0x100);
  return 0;
}
API CUresult cuStreamDestroy_v2(void *stream) {
  (void)stream;
  COUNTED;
  return 0;
}
API CUresult cuStreamGetCtx(void *stream, void **ctx) {
  (void)stream;
  COUNTED;
  *ctx = current;
  return 0;
}
API CUresult cuStreamSynchronize(void *stream) {
  (void)stream;
  COUNTED;
  return 0;
}
API CUresult cuStreamQuery(void *stream) {
  (void)stream;
  COUNTED;
  return __atomic_load_n(&holding, __ATOMIC_SEQ_CST) ? NOT_READY : 0;
}
API CUresult cuStreamBeginCapture_v2(void *stream, int mode) {
  (void)stream, (void)mode;
  COUNTED;
  capturing = 1;
  return 0;
}
API CUresult cuStreamEndCapture(void *stream, void **graph) {
  (void)stream;
  COUNTED;
  *graph = (void *)(uintptr_t)0x600000;
  capturing = 0;
  return 0;
}
API CUresult cuStreamIsCapturing(void *stream, int *status) {
  (void)stream;
  COUNTED;
  *status = capturing;
  return 0;
}
API CUresult cuEventCreate(void **event, unsigned flags) {
  static uintptr_t next = 0x700000;
  (void)flags;
  COUNTED;
  *event = (void *)__atomic_add_fetch(&next, 0x100, __ATOMIC_RELAXED);
  return 0;
}
API CUresult cuEventDestroy_v2(void *event) {
  (void)event;
  COUNTED;
  return 0;
}

/* At these moments, in ms, the next events are reached that are recorded, in turn. Without, or beyond: 0.5 ms after each
 * other event. */
enum { TIMES = 64 };
static struct {
  void *event;
  float ms;
} reached[TIMES];
static unsigned told, recorded;
static float now_ms = FLT_MAX;

API void fake_event_times(const float *ms, unsigned count) {
  for (told = 0, recorded = 0; told < count && told < TIMES; told++)
    reached[told].ms = ms[told];
}

/* Until then, of those. */
API void fake_reach(float ms) {
  now_ms = ms;
}

static const float *time_of(const void *event) {
  for (unsigned i = recorded; i-- > 0;)
    if (reached[i].event == event)
      return &reached[i].ms;
  return NULL;
}

API CUresult cuEventRecord(void *event, void *stream) {
  (void)stream;
  COUNTED;
  if (recorded < told)
    reached[recorded++].event = event;
  return 0;
}
API CUresult cuEventQuery(void *event) {
  const float *ms = time_of(event);
  COUNTED;
  if (capturing)
    return CAPTURE_UNSAFE;
  if (ms && *ms > now_ms)
    return NOT_READY;
  return __atomic_load_n(&holding, __ATOMIC_SEQ_CST) ? NOT_READY : 0;
}
API CUresult cuEventSynchronize(void *event) {
  (void)event;
  COUNTED;
  return 0;
}
API CUresult cuEventElapsedTime(float *ms, void *start, void *end) {
  COUNTED;
  const float *from = time_of(start), *to = time_of(end);
  *ms = from && to ? *to - *from : 0.5f;
  return 0;
}
