/* Which streams capture. While any does, the shim records, queries and synchronises nothing. */
#ifndef FIKIT_SHIM_CAPTURE_H
#define FIKIT_SHIM_CAPTURE_H

#include "base/cuda_abi.h"

#include <stdatomic.h>
#include <stdbool.h>

extern _Atomic int fikit_captures; /* captures going on in this process */

static inline bool fikit_capture_anywhere(void) {
  return atomic_load_explicit(&fikit_captures, memory_order_relaxed) > 0;
}

/* True if a launch into this stream (NULL not allowed) would be captured instead of run. A capture spreads through
 * events, hence the question to the driver; it is asked only while some capture is going on. */
bool fikit_stream_captures(CUstream stream);

/* The stream was destroyed, or its context with all of its streams; captures ended with them. */
void fikit_capture_forget(CUstream stream);
void fikit_capture_context_gone(CUcontext context);

/* Around what the shim asks the driver for itself. Another thread may begin a capture in global mode at any moment, and would
 * find it broken by a call that is "potentially unsafe", as a query of an event is; by one in relaxed mode it is not (CUDA
 * manual, cuThreadExchangeStreamCaptureMode). Restore takes what relax gave. */
int fikit_capture_relax(void);
void fikit_capture_restore(int mode);

#endif
