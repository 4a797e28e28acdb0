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

static struct {
  CUcontext context; /* of the event */
  CUevent event;     /* NULL: not created */
  bool out;          /* recorded, and not known to be over */
} asked;

/* NOT_READY also where nobody may ask. */
static CUresult query(void) {
  return fikit_capture_anywhere() || fikit_context_ends() ? CUDA_ERROR_NOT_READY : REAL(cuEventQuery)(asked.event);
}

static CUresult query_for_a_while(void) {
  const int64_t from_ns = fikit_now_ns();
  CUresult result;
  while ((result = query()) == CUDA_ERROR_NOT_READY && fikit_now_ns() - from_ns < PATIENCE_NS)
    sched_yield();
  return result;
}

static bool event_is_of(CUcontext context) {
  if (asked.event && asked.context == context)
    return true;
  if (asked.event)
    REAL(cuEventDestroy_v2)(asked.event);
  asked.event = NULL;
  asked.context = context;
  return REAL(cuEventCreate)(&asked.event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
}

/* False also where a stream captures. */
static CUresult record(CUcontext context) {
  if (!fikit_capture_hold())
    return CUDA_ERROR_NOT_READY;
  const CUresult result = REAL(cuCtxRecordEvent)(context, asked.event);
  fikit_capture_let_go();
  return result;
}

static enum fikit_idle ask(CUcontext context) {
  bool goes_on = false;
  if (asked.out) {
    const CUresult before = query();
    if (before == CUDA_ERROR_NOT_READY)
      return FIKIT_BUSY;
    asked.out = false;
    goes_on = before == CUDA_SUCCESS && asked.context == context;
  }
  const CUresult recorded = event_is_of(context) ? record(context) : CUDA_ERROR_NOT_FOUND;
  if (recorded == CUDA_ERROR_NOT_READY)
    return FIKIT_BUSY;
  const CUresult result = recorded == CUDA_SUCCESS ? query_for_a_while() : recorded;
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

void fikit_idle_context_gone(CUcontext context) {
  if (asked.context != context)
    return;
  asked.context = NULL;
  asked.event = NULL;
  asked.out = false;
}

void fikit_idle_forget_all(void) {
  asked.context = NULL;
  asked.event = NULL;
  asked.out = false;
}
