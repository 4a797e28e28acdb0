/* Streams, events and captures of the stand-in libcuda.so.1. */
#include "shim_fake_cuda.h"

#include <float.h>

static float now_ms = FLT_MAX; /* negative: before all work */

/* What breaks a capture in global mode, and what does not, is as cuThreadExchangeStreamCaptureMode's manual entry has it. */
enum { RELAXED = 2 };
static _Thread_local int mode;
static int broken;

API CUresult cuThreadExchangeStreamCaptureMode(int *exchanged) {
  int before = mode;
  mode = *exchanged;
  *exchanged = before;
  return 0;
}

static int unsafe(void) {
  if (!__atomic_load_n(&capturing, __ATOMIC_SEQ_CST) || mode == RELAXED)
    return 0;
  return broken = 1;
}

/* Events end with their context. To touch one then, or while the context is being destroyed, is undefined (cuCtxDestroy's manual
 * entry): it is counted. */
enum { EVENTS = 4096, FIRST_EVENT = 0x700000, EVENT_STEP = 0x100 };
static void *context_of[EVENTS];
static unsigned strays;

static unsigned number_of(const void *event) {
  return ((unsigned)(uintptr_t)event - FIRST_EVENT) / EVENT_STEP % EVENTS;
}

static void touch(const void *event) {
  if (!__atomic_load_n(&context_of[number_of(event)], __ATOMIC_SEQ_CST))
    __atomic_fetch_add(&strays, 1, __ATOMIC_SEQ_CST);
}

API unsigned fake_strays(void) {
  return __atomic_load_n(&strays, __ATOMIC_SEQ_CST);
}

HIDDEN void end_streams_of(void *ctx, int over) {
  for (unsigned i = 0; i < EVENTS; i++)
    if (context_of[i] == ctx)
      __atomic_store_n(&context_of[i], NULL, __ATOMIC_SEQ_CST);
  if (over)
    capturing = 0;
}

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
/* Contexts whose handles end in 0xc00 are green ones, of the context with that page for a handle. */
API CUresult cuStreamGetCtx_v2(void *stream, void **ctx, void **green) {
  uintptr_t handle = (uintptr_t)current;
  int is_green = (handle & 0xfff) == 0xc00;
  COUNTED;
  if (is_green && (uintptr_t)stream == 2) /* the thread's own */
    return INVALID_HANDLE;
  *green = is_green ? current : NULL;
  *ctx = is_green ? (void *)(handle & ~(uintptr_t)0xfff) : current;
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
  if (unsafe())
    return CAPTURE_UNSAFE;
  return now_ms < 0 || __atomic_load_n(&holding, __ATOMIC_SEQ_CST) ? NOT_READY : 0;
}
API CUresult cuStreamBeginCapture_v2(void *stream, int mode) {
  (void)stream, (void)mode;
  COUNTED;
  broken = 0;
  __atomic_store_n(&capturing, 1, __ATOMIC_SEQ_CST);
  return 0;
}
API CUresult cuStreamBeginRecaptureToGraph(void *stream, int mode, void *graph, void *callback, void *data) {
  (void)graph, (void)callback, (void)data;
  return cuStreamBeginCapture_v2(stream, mode);
}
API CUresult cuStreamBeginCaptureToCig(void *stream, void *parameters) {
  (void)parameters;
  return cuStreamBeginCapture_v2(stream, RELAXED);
}
API CUresult cuStreamEndCaptureToCig(void *stream) {
  (void)stream;
  COUNTED;
  capturing = 0;
  return 0;
}
API CUresult cuStreamEndCapture(void *stream, void **graph) {
  (void)stream;
  COUNTED;
  *graph = (void *)(uintptr_t)0x600000;
  capturing = 0;
  return broken ? CAPTURE_INVALIDATED : 0;
}
API CUresult cuStreamIsCapturing(void *stream, int *status) {
  (void)stream;
  COUNTED;
  *status = capturing;
  return 0;
}
API CUresult cuEventCreate(void **event, unsigned flags) {
  static uintptr_t next = FIRST_EVENT;
  (void)flags;
  COUNTED;
  *event = (void *)__atomic_add_fetch(&next, EVENT_STEP, __ATOMIC_RELAXED);
  __atomic_store_n(&context_of[number_of(*event)], current, __ATOMIC_SEQ_CST);
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
  touch(event);
  if (unsafe())
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
  touch(start);
  touch(end);
  const float *from = time_of(start), *to = time_of(end);
  *ms = from && to ? *to - *from : 0.5f;
  return 0;
}
