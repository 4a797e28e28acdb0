#include "hooks/event.h"
#include "hooks/complete.h"
#include "streams/capture.h"
#include "base/clock.h"
#include "base/lock.h"
#include "streams/stream.h"
#include "base/symbols.h"

#include <string.h>

/* Direct-mapped: of two events on one line the older is forgotten, and its completion proves nothing. */
enum { EVENTS = 1024 };

struct recorded {
  CUevent event;
  CUstream handle; /* the entry's handle at that time: the entry may be another stream's by now */
  struct fikit_stream *stream;
  uint64_t issued; /* launches on that stream before the record */
};

static struct recorded events[EVENTS];
FIKIT_LOCK(changing);

static struct recorded *line(CUevent event) {
  uintptr_t bits = (uintptr_t)event;
  return &events[(bits >> 4 ^ bits >> 14) % EVENTS];
}

static void forget(CUevent event) {
  if (!fikit_lock(&changing))
    return;
  if (line(event)->event == event)
    line(event)->event = NULL;
  fikit_unlock(&changing);
}

/* `issued` was read before the driver recorded the event, so that it counts no launch after the event. */
static CUresult recorded(CUevent event, CUstream handle, struct fikit_stream *stream, uint64_t issued, CUresult result) {
  if (!stream->device || result != CUDA_SUCCESS)
    return result;
  if (fikit_capture_anywhere()) {
    forget(event); /* may be a node of a graph now, not a point in the stream */
    return result;
  }
  if (fikit_lock(&changing)) {
    *line(event) = (struct recorded){event, handle, stream, issued};
    fikit_unlock(&changing);
  }
  return result;
}

static uint64_t issued_on(struct fikit_stream *stream) {
  return atomic_load_explicit(&stream->issued, memory_order_acquire);
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  struct fikit_stream *entry = fikit_stream_of(fikit_legacy(stream));
  uint64_t issued = issued_on(entry);
  return recorded(event, fikit_legacy(stream), entry, issued, REAL(cuEventRecord)(event, stream));
}

CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) {
  struct fikit_stream *entry = fikit_stream_of(fikit_per_thread(stream));
  uint64_t issued = issued_on(entry);
  return recorded(event, fikit_per_thread(stream), entry, issued, REAL(cuEventRecord_ptsz)(event, stream));
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  struct fikit_stream *entry = fikit_stream_of(fikit_legacy(stream));
  uint64_t issued = issued_on(entry);
  return recorded(event, fikit_legacy(stream), entry, issued, REAL(cuEventRecordWithFlags)(event, stream, flags));
}

CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags) {
  struct fikit_stream *entry = fikit_stream_of(fikit_per_thread(stream));
  uint64_t issued = issued_on(entry);
  return recorded(event, fikit_per_thread(stream), entry, issued,
                  REAL(cuEventRecordWithFlags_ptsz)(event, stream, flags));
}

/* The event, as it was recorded before the question (`before`), is complete; so is the work in front of it. */
static CUresult complete(struct recorded before, CUevent event, int64_t began_ns, CUresult result) {
  if (result != CUDA_SUCCESS || !event || before.event != event)
    return result;
  if (atomic_load_explicit(&before.stream->handle, memory_order_acquire) == (uintptr_t)before.handle)
    fikit_complete_stream(before.stream, before.issued, began_ns);
  return result;
}

static struct recorded what_is(CUevent event) {
  struct recorded found = {NULL, NULL, NULL, 0};
  if (fikit_lock(&changing)) {
    found = *line(event);
    fikit_unlock(&changing);
  }
  return found;
}

CUresult cuEventSynchronize(CUevent event) {
  struct recorded before = what_is(event);
  int64_t began_ns = before.event == event ? fikit_now_ns() : 0;
  return complete(before, event, began_ns, REAL(cuEventSynchronize)(event));
}

CUresult cuEventQuery(CUevent event) {
  struct recorded before = what_is(event);
  return complete(before, event, 0, REAL(cuEventQuery)(event));
}

CUresult cuEventDestroy(CUevent event) {
  forget(event);
  return REAL(cuEventDestroy)(event);
}

CUresult cuEventDestroy_v2(CUevent event) {
  forget(event);
  return REAL(cuEventDestroy_v2)(event);
}

void fikit_event_forget_all(void) {
  memset(events, 0, sizeof events);
}
