#include "streams/capture.h"
#include "base/lock.h"
#include "streams/stream.h"
#include "base/symbols.h"

enum { ORIGINS = 64 };

_Atomic int fikit_captures;
static struct {
  CUstream stream;
  CUcontext context; /* of the stream; NULL: not managed */
} origins[ORIGINS]; /* on which a capture was begun */
FIKIT_LOCK(changing);

bool fikit_stream_captures(CUstream stream) {
  int status = CU_STREAM_CAPTURE_STATUS_NONE;
  /* An error is an answer too: the legacy stream may not be used while a blocking stream captures. */
  return REAL(cuStreamIsCapturing)(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* In a signal handler, and beyond ORIGINS, the capture is only counted; from then on the shim makes no call that could break a capture. */
static void began(CUstream stream) {
  CUcontext context = fikit_stream_of(stream)->context;
  atomic_fetch_add_explicit(&fikit_captures, 1, memory_order_relaxed);
  if (!fikit_lock(&changing))
    return;
  for (int i = 0; i < ORIGINS; i++)
    if (!origins[i].stream) {
      origins[i].stream = stream;
      origins[i].context = context;
      break;
    }
  fikit_unlock(&changing);
}

/* Whoever begins one has counted it before he comes to the lock. */
bool fikit_capture_hold(void) {
  if (!fikit_lock(&changing))
    return false;
  if (!fikit_capture_anywhere())
    return true;
  fikit_unlock(&changing);
  return false;
}

void fikit_capture_let_go(void) {
  fikit_unlock(&changing);
}

/* Under `changing`. */
static void forget(int i) {
  origins[i].stream = NULL;
  origins[i].context = NULL;
  atomic_fetch_sub_explicit(&fikit_captures, 1, memory_order_relaxed);
}

void fikit_capture_forget(CUstream stream) {
  if (!fikit_lock(&changing))
    return;
  for (int i = 0; i < ORIGINS; i++)
    if (origins[i].stream == stream) {
      forget(i);
      break;
    }
  fikit_unlock(&changing);
}

void fikit_capture_context_gone(CUcontext context) {
  if (!fikit_lock(&changing))
    return;
  for (int i = 0; i < ORIGINS; i++)
    if (origins[i].stream && origins[i].context == context)
      forget(i);
  fikit_unlock(&changing);
}

int fikit_capture_relax(void) {
  int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  return HAS(cuThreadExchangeStreamCaptureMode) && REAL(cuThreadExchangeStreamCaptureMode)(&mode) == CUDA_SUCCESS
             ? mode
             : CU_STREAM_CAPTURE_MODE_RELAXED;
}

void fikit_capture_restore(int mode) {
  if (mode != CU_STREAM_CAPTURE_MODE_RELAXED)
    REAL(cuThreadExchangeStreamCaptureMode)(&mode);
}

/* An EndCapture that failed may have ended the capture or not (wrong thread: yes): the driver knows. */
static void ended(CUstream stream) {
  int status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (REAL(cuStreamIsCapturing)(stream, &status) != CUDA_SUCCESS || status == CU_STREAM_CAPTURE_STATUS_NONE)
    fikit_capture_forget(stream);
}

/* The count must be up before the driver begins, or another thread's event query could fall into the capture. */
#define BEGIN(stream, call)                 \
  do {                                      \
    began(stream);                          \
    CUresult result = (call);               \
    if (result != CUDA_SUCCESS)             \
      fikit_capture_forget(stream);         \
    return result;                          \
  } while (0)

CUresult cuStreamBeginCapture(CUstream stream) {
  BEGIN(fikit_legacy(stream), REAL(cuStreamBeginCapture)(stream));
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
  BEGIN(fikit_per_thread(stream), REAL(cuStreamBeginCapture_ptsz)(stream));
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
  BEGIN(fikit_legacy(stream), REAL(cuStreamBeginCapture_v2)(stream, mode));
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode) {
  BEGIN(fikit_per_thread(stream), REAL(cuStreamBeginCapture_v2_ptsz)(stream, mode));
}

CUresult cuStreamBeginCaptureToGraph(FIKIT_CAPTURE_TO_GRAPH_ARGS) {
  BEGIN(fikit_legacy(stream), REAL(cuStreamBeginCaptureToGraph)(stream, graph, dependencies, data, count, mode));
}

CUresult cuStreamBeginCaptureToGraph_ptsz(FIKIT_CAPTURE_TO_GRAPH_ARGS) {
  BEGIN(fikit_per_thread(stream),
        REAL(cuStreamBeginCaptureToGraph_ptsz)(stream, graph, dependencies, data, count, mode));
}

/* Captures into the same nodes again, in the same order (CUDA 13.3): a node of the shim's among them would make it fail. */
CUresult cuStreamBeginRecaptureToGraph(CUstream stream, int mode, CUgraph graph, void *callback, void *data) {
  BEGIN(fikit_legacy(stream), REAL(cuStreamBeginRecaptureToGraph)(stream, mode, graph, callback, data));
}

CUresult cuStreamBeginRecaptureToGraph_ptsz(CUstream stream, int mode, CUgraph graph, void *callback, void *data) {
  BEGIN(fikit_per_thread(stream), REAL(cuStreamBeginRecaptureToGraph_ptsz)(stream, mode, graph, callback, data));
}

/* Into a list of commands of a graphics interface (CUDA 13.1). Whether cuStreamIsCapturing knows of it, its manual does not say. */
CUresult cuStreamBeginCaptureToCig(CUstream stream, void *params) {
  BEGIN(fikit_legacy(stream), REAL(cuStreamBeginCaptureToCig)(stream, params));
}

CUresult cuStreamBeginCaptureToCig_ptsz(CUstream stream, void *params) {
  BEGIN(fikit_per_thread(stream), REAL(cuStreamBeginCaptureToCig_ptsz)(stream, params));
}

static CUresult ended_to_cig(CUstream stream, CUresult result) {
  if (result == CUDA_SUCCESS)
    fikit_capture_forget(stream);
  return result;
}

CUresult cuStreamEndCaptureToCig(CUstream stream) {
  return ended_to_cig(fikit_legacy(stream), REAL(cuStreamEndCaptureToCig)(stream));
}

CUresult cuStreamEndCaptureToCig_ptsz(CUstream stream) {
  return ended_to_cig(fikit_per_thread(stream), REAL(cuStreamEndCaptureToCig_ptsz)(stream));
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  CUresult result = REAL(cuStreamEndCapture)(stream, graph);
  ended(fikit_legacy(stream));
  return result;
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph) {
  CUresult result = REAL(cuStreamEndCapture_ptsz)(stream, graph);
  ended(fikit_per_thread(stream));
  return result;
}

/* Under `changing`: the place of a capture that began on this stream; ORIGINS: there is none. */
static int origin_of(CUstream stream) {
  int i = 0;
  while (i < ORIGINS && origins[i].stream != stream)
    i++;
  return i;
}

/* Its capture has no stream any more, and counts until the driver has ended it. NULL: there was none. */
static CUstream take(CUstream stream, CUcontext *context) {
  CUstream taken = NULL;
  if (!stream || !fikit_lock(&changing))
    return NULL;
  const int i = origin_of(stream);
  if (i < ORIGINS) {
    taken = stream;
    *context = origins[i].context;
    origins[i].stream = NULL;
    origins[i].context = NULL;
  }
  fikit_unlock(&changing);
  return taken;
}

static void give_back(CUstream stream, CUcontext context) {
  if (!fikit_lock(&changing))
    return;
  const int i = origin_of(NULL);
  if (i < ORIGINS) {
    origins[i].stream = stream;
    origins[i].context = context;
  }
  fikit_unlock(&changing);
}

/* What is known of the stream is forgotten first: once the driver has destroyed it, another thread may be given the same handle. */
static CUresult destroy(CUstream stream, CUresult (*call)(CUstream stream)) {
  CUcontext context = NULL;
  const CUstream captured = take(stream, &context);
  fikit_stream_destroyed(stream);
  const CUresult result = call(stream);
  if (captured && result == CUDA_SUCCESS)
    atomic_fetch_sub_explicit(&fikit_captures, 1, memory_order_relaxed);
  else if (captured)
    give_back(captured, context);
  return result;
}

CUresult cuStreamDestroy(CUstream stream) {
  return destroy(stream, REAL(cuStreamDestroy));
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  return destroy(stream, REAL(cuStreamDestroy_v2));
}
