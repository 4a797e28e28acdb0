#include "gate/marker.h"
#include "streams/capture.h"
#include "base/clock.h"
#include "streams/context_end.h"
#include "gate/gate.h"
#include "base/lock.h"
#include "base/page.h"
#include "gate/gpu_marker.h"
#include "base/symbols.h"

#include <stdlib.h>

enum { MARKERS = 16 };

struct marker {
  CUevent event;     /* NULL: not created */
  CUcontext context; /* of the event */
  uint32_t slot, request_seq;
  bool taken;   /* a thread is about to record it */
  bool pending; /* recorded, completion not reported */
};

struct fikit_markers {
  pthread_mutex_t mutex;
  atomic_flag polling;  /* a thread is asking the driver; the others need not */
  _Atomic unsigned pending; /* how many are */
  struct marker marker[MARKERS];
};

struct fikit_markers *fikit_markers_new(void) {
  struct fikit_markers *markers = calloc(1, sizeof *markers);
  if (markers)
    pthread_mutex_init(&markers->mutex, NULL);
  return markers;
}

static void report(struct fikit_device *device, uint32_t slot, uint32_t request_seq) {
  fikit_page_put(device->page, FIKIT_ENTRY_DONE, slot, request_seq, fikit_now_ns());
}

/* A marker that is neither taken nor pending, with an event of `context`; NULL: there is none. */
static struct marker *free_marker(struct fikit_markers *markers, CUcontext context) {
  struct marker *unused = NULL;
  for (struct marker *m = markers->marker; m < markers->marker + MARKERS; m++) {
    if (m->event && !m->pending && !m->taken && m->context == context)
      return m;
    if (!m->event && !m->taken)
      unused = m;
  }
  if (!unused)
    return NULL;
  int mode = fikit_capture_relax();
  CUresult result = REAL(cuEventCreate)(&unused->event, CU_EVENT_DISABLE_TIMING);
  fikit_capture_restore(mode);
  if (result != CUDA_SUCCESS)
    return NULL;
  unused->context = context;
  return unused;
}

/* The driver may make a thread wait whose stream is full, and other threads go on meanwhile: so a marker is recorded without the lock. */
static struct marker *take(struct fikit_markers *markers, CUcontext context) {
  if (!fikit_lock(&markers->mutex))
    return NULL;
  struct marker *marker = free_marker(markers, context);
  if (marker)
    marker->taken = true;
  fikit_unlock(&markers->mutex);
  return marker;
}

/* The thread that took the marker has recorded it, or the driver refused. */
static void release(struct fikit_device *device, struct marker *marker, bool recorded, uint32_t slot, uint32_t request_seq) {
  struct fikit_markers *markers = device->markers;
  if (!fikit_lock(&markers->mutex))
    return;
  marker->taken = false;
  if (recorded && marker->event) {
    marker->slot = slot;
    marker->request_seq = request_seq;
    marker->pending = true;
    atomic_fetch_add_explicit(&markers->pending, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&device->page->marker_count, 1, memory_order_relaxed);
  }
  fikit_unlock(&markers->mutex);
}

static void mark(struct fikit_device *device, struct fikit_stream *entry, CUstream stream, uint32_t slot,
                 uint32_t request_seq) {
  struct fikit_markers *markers = device->markers;
  CUcontext context = NULL;
  if (fikit_capture_anywhere() || fikit_gpu_marker_grant(device, entry, stream, request_seq) ||
      REAL(cuCtxGetCurrent)(&context) != CUDA_SUCCESS)
    return;
  int cancelability; /* a thread that was cancelled here would keep the marker */
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelability);
  struct marker *marker = take(markers, context);
  if (marker)
    release(device, marker, REAL(cuEventRecord)(marker->event, stream) == CUDA_SUCCESS, slot, request_seq);
  pthread_setcancelstate(cancelability, &cancelability);
}

void fikit_marker_set(struct fikit_device *device, struct fikit_stream *entry, CUstream stream, uint32_t slot,
                      uint32_t request_seq) {
  bool goes_on = fikit_run_goes_on(device->page);
  atomic_store_explicit(&device->unmarked_stream, entry, memory_order_relaxed);
  atomic_store_explicit(&device->unmarked, goes_on ? request_seq : 0, memory_order_release);
  if (!goes_on)
    mark(device, entry, stream, slot, request_seq);
}

void fikit_marker_behind_move(struct fikit_device *device, struct fikit_stream *entry, CUstream stream, uint32_t request_seq) {
  mark(device, entry, stream, 0, request_seq);
}

void fikit_marker_end_run(struct fikit_device *device, struct fikit_stream *entry, CUstream stream) {
  uint32_t request_seq = atomic_exchange_explicit(&device->unmarked, 0, memory_order_acquire);
  if (!request_seq || atomic_load_explicit(&device->unmarked_stream, memory_order_relaxed) != entry || fikit_capture_anywhere())
    return;
  int mode = fikit_capture_relax();
  CUresult result = REAL(cuStreamQuery)(stream);
  fikit_capture_restore(mode);
  if (result == CUDA_ERROR_NOT_READY)
    mark(device, entry, stream, 0, request_seq);
  else
    report(device, 0, request_seq); /* complete; or the context is broken */
}

void fikit_marker_skip(struct fikit_device *device, uint32_t slot, uint32_t request_seq) {
  if (fikit_run_goes_on(device->page))
    return;
  report(device, slot, request_seq);
  fikit_doorbell(device);
}

bool fikit_markers_poll(struct fikit_device *device) {
  struct fikit_markers *markers = device->markers;
  bool reported = false;
  if (atomic_load_explicit(&markers->pending, memory_order_relaxed) == 0)
    return false;
  if (fikit_capture_anywhere() || atomic_flag_test_and_set(&markers->polling))
    return true; /* a query could break a capture */
  if (!fikit_lock(&markers->mutex)) {
    atomic_flag_clear(&markers->polling);
    return true;
  }
  int mode = fikit_capture_relax();
  for (struct marker *m = markers->marker; m < markers->marker + MARKERS && !fikit_context_ends(); m++) {
    CUresult result = m->pending ? REAL(cuEventQuery)(m->event) : CUDA_ERROR_NOT_READY;
    if (result == CUDA_ERROR_NOT_READY)
      continue;
    m->pending = false; /* completed; or the context is broken, and then nothing runs any more either */
    atomic_fetch_sub_explicit(&markers->pending, 1, memory_order_relaxed);
    report(device, m->slot, m->request_seq);
    reported = true;
  }
  fikit_capture_restore(mode);
  fikit_unlock(&markers->mutex);
  atomic_flag_clear(&markers->polling);
  if (reported)
    fikit_doorbell(device);
  return atomic_load_explicit(&markers->pending, memory_order_relaxed) != 0;
}

void fikit_markers_pass(struct fikit_device *device) {
  if (fikit_lock(&device->markers->mutex))
    fikit_unlock(&device->markers->mutex);
}

void fikit_markers_forget_context(struct fikit_device *device, CUcontext context) {
  struct fikit_markers *markers = device->markers;
  if (!fikit_lock(&markers->mutex))
    return;
  for (struct marker *m = markers->marker; m < markers->marker + MARKERS; m++) {
    if (!m->event || m->context != context)
      continue;
    if (m->pending) {
      atomic_fetch_sub_explicit(&markers->pending, 1, memory_order_relaxed);
      report(device, m->slot, m->request_seq);
    }
    m->event = NULL;
    m->pending = false;
  }
  fikit_unlock(&markers->mutex);
}
