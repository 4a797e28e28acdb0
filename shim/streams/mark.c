#include "streams/mark.h"
#include "base/lock.h"
#include "base/symbols.h"
#include "streams/capture.h"
#include "streams/context_end.h"

#include <string.h>

enum { MARKS = 1024 };

struct fikit_mark {
  CUevent event;     /* NULL: not created, or gone with its context */
  CUcontext context; /* of the event */
  struct fikit_stream_id stream;
  uint64_t number;
  bool used;
};

FIKIT_LOCK(marking);
static struct fikit_mark marks[MARKS];
static unsigned made; /* of them, from the start */
static _Atomic uint64_t newest_mark;

/* Under the lock: one with an event of this context, else one without; NULL: all are used. */
static struct fikit_mark *unused(CUcontext context) {
  struct fikit_mark *bare = NULL;
  for (unsigned i = 0; i < made; i++) {
    if (marks[i].used)
      continue;
    if (marks[i].event && marks[i].context == context)
      return &marks[i];
    if (!marks[i].event)
      bare = &marks[i];
  }
  return bare || made == MARKS ? bare : &marks[made++];
}

/* Under the lock. */
static bool has_event(struct fikit_mark *mark, CUcontext context) {
  if (mark->event)
    return true;
  if (REAL(cuEventCreate)(&mark->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
    return false;
  mark->context = context;
  return true;
}

struct fikit_mark *fikit_mark(CUstream stream) {
  CUcontext context = NULL;
  CUevent event = NULL;
  if (fikit_capture_anywhere() || fikit_context_ends() || REAL(cuCtxGetCurrent)(&context) != CUDA_SUCCESS)
    return NULL;
  const struct fikit_stream_id in = fikit_stream_id(fikit_stream_of(stream));
  if (!fikit_lock(&marking))
    return NULL;
  const int mode = fikit_capture_relax();
  struct fikit_mark *mark = unused(context);
  if (mark && has_event(mark, context)) {
    event = mark->event;
    mark->used = true;
  }
  fikit_unlock(&marking);
  /* Without the lock: the driver may make a thread wait whose stream is full, and other threads go on meanwhile. */
  const bool recorded = event && REAL(cuEventRecord)(event, stream) == CUDA_SUCCESS;
  fikit_capture_restore(mode);
  if (event && !recorded)
    fikit_mark_dropped(mark);
  if (!recorded)
    return NULL;
  mark->stream = in;
  mark->number = atomic_fetch_add_explicit(&newest_mark, 1, memory_order_release) + 1;
  return mark;
}

bool fikit_mark_passed(struct fikit_mark *mark) {
  if (!fikit_lock(&marking))
    return false;
  const int mode = fikit_capture_relax();
  const bool passed = !mark->event || (!fikit_context_ends() && REAL(cuEventQuery)(mark->event) == CUDA_SUCCESS);
  fikit_capture_restore(mode);
  mark->used = mark->used && !passed;
  fikit_unlock(&marking);
  return passed;
}

void fikit_mark_dropped(struct fikit_mark *mark) {
  if (!fikit_lock(&marking))
    return; /* one fewer */
  mark->used = false;
  fikit_unlock(&marking);
}

uint64_t fikit_mark_newest(void) {
  return atomic_load_explicit(&newest_mark, memory_order_acquire);
}

bool fikit_mark_is_before(const struct fikit_mark *mark, const struct fikit_stream *entry, uint64_t newest) {
  return mark->number <= newest && fikit_stream_is(&mark->stream, entry);
}

bool fikit_mark_awaited(const struct fikit_mark *mark, CUstream stream) {
  CUevent event = NULL;
  if (!fikit_lock(&marking))
    return false;
  if (!fikit_context_ends())
    event = mark->event;
  fikit_unlock(&marking); /* as in fikit_mark() */
  const int mode = fikit_capture_relax();
  const bool awaited = event && REAL(cuStreamWaitEvent)(stream, event, 0) == CUDA_SUCCESS;
  fikit_capture_restore(mode);
  return awaited;
}

void fikit_marks_context_gone(CUcontext context) {
  if (!fikit_lock(&marking))
    return;
  for (unsigned i = 0; i < made; i++)
    if (marks[i].context == context)
      marks[i].event = NULL;
  fikit_unlock(&marking);
}

void fikit_marks_forget_all(void) {
  memset(marks, 0, made * sizeof *marks); /* the parent's events and marks are nothing here */
  made = 0;
}
