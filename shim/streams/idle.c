/*
 * By an event of the whole context (cuCtxRecordEvent), behind all that its streams have now. One is out at a time: while a stream stands each further one would only
 * stand behind it, in the driver's own memory. A capture that begins in the context meanwhile would be broken by the call, so none begins.
 */
#include "streams/idle.h"
#include "base/clock.h"
#include "base/symbols.h"
#include "streams/capture.h"
#include "streams/context_end.h"

#include <sched.h>

enum { PATIENCE_NS = 50000 }; /* an event of an idle context is over in a few microseconds */

struct context_event {
  CUcontext context; /* of the event */
  CUevent event;     /* NULL: not created */
  bool out;          /* recorded, and not known to be over */
};
static struct context_event asked, put; /* for fikit_idle, and fikit_context_event_put */

/* NOT_READY also where nobody may ask. */
static CUresult query(const struct context_event *of) {
  return fikit_capture_anywhere() || fikit_context_ends() ? CUDA_ERROR_NOT_READY : REAL(cuEventQuery)(of->event);
}

static CUresult query_for(const struct context_event *of, int64_t patience_ns) {
  const int64_t from_ns = fikit_now_ns();
  CUresult result;
  while ((result = query(of)) == CUDA_ERROR_NOT_READY && fikit_now_ns() - from_ns < patience_ns)
    sched_yield();
  return result;
}

static bool is_of(struct context_event *of, CUcontext context) {
  if (of->event && of->context == context)
    return true;
  if (of->event)
    REAL(cuEventDestroy_v2)(of->event);
  of->event = NULL;
  of->context = context;
  return REAL(cuEventCreate)(&of->event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
}

/* NOT_READY where a stream captures. */
static CUresult record(struct context_event *of, CUcontext context) {
  if (!is_of(of, context))
    return CUDA_ERROR_NOT_FOUND;
  if (!fikit_capture_hold())
    return CUDA_ERROR_NOT_READY;
  const CUresult result = REAL(cuCtxRecordEvent)(context, of->event);
  fikit_capture_let_go();
  return result;
}

static enum fikit_idle ask(CUcontext context) {
  bool goes_on = false;
  if (asked.out) {
    const CUresult before = query(&asked);
    if (before == CUDA_ERROR_NOT_READY)
      return FIKIT_BUSY;
    asked.out = false;
    goes_on = before == CUDA_SUCCESS && asked.context == context;
  }
  const CUresult recorded = record(&asked, context);
  if (recorded == CUDA_ERROR_NOT_READY)
    return FIKIT_BUSY;
  const CUresult result = recorded == CUDA_SUCCESS ? query_for(&asked, PATIENCE_NS) : recorded;
  asked.out = result == CUDA_ERROR_NOT_READY;
  if (asked.out)
    return goes_on ? FIKIT_GOES_ON : FIKIT_BUSY;
  return result == CUDA_SUCCESS ? FIKIT_IDLE : FIKIT_IDLE_UNKNOWN;
}

enum fikit_idle fikit_idle(CUcontext context) {
  if (!HAS(cuCtxRecordEvent))
    return FIKIT_IDLE_UNKNOWN;
  if (fikit_capture_anywhere() || fikit_context_ends())
    return FIKIT_BUSY;
  const int mode = fikit_capture_relax();
  const enum fikit_idle answer = ask(context);
  fikit_capture_restore(mode);
  return answer;
}

static void forget(struct context_event *of, CUcontext context) {
  if (of->context == context)
    *of = (struct context_event){0};
}

void fikit_idle_context_gone(CUcontext context) {
  forget(&asked, context);
}

bool fikit_context_event_put(CUcontext context) {
  if (!HAS(cuCtxRecordEvent) || put.out || fikit_capture_anywhere() || fikit_context_ends())
    return false;
  const int mode = fikit_capture_relax();
  put.out = record(&put, context) == CUDA_SUCCESS;
  fikit_capture_restore(mode);
  return put.out;
}

bool fikit_context_event_over(CUcontext context, int64_t patience_ns) {
  if (!put.out)
    return false;
  const int mode = fikit_capture_relax();
  const CUresult result = query_for(&put, patience_ns);
  fikit_capture_restore(mode);
  put.out = result == CUDA_ERROR_NOT_READY;
  return result == CUDA_SUCCESS && put.context == context;
}

void fikit_context_event_context_gone(CUcontext context) {
  forget(&put, context);
}

void fikit_idle_forget_all(void) {
  asked = put = (struct context_event){0};
}
