/* Which streams capture. While one does, the shim neither records nor queries events, and synchronises nothing. */
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

/* A capture on the stream ended, or its context with all of its streams; captures ended with them. */
void fikit_capture_forget(CUstream stream);
void fikit_capture_context_gone(CUcontext context);

/* No capture begins between the two, and none was going on: for a call that would break one in any mode. False: one is. */
bool fikit_capture_hold(void);
void fikit_capture_let_go(void);

/* Around the shim's own calls of the driver. Another thread may begin a capture in global mode at any moment, and a "potentially unsafe" call, such
 * as a query of an event, would break it; a call in relaxed mode does not (CUDA manual, cuThreadExchangeStreamCaptureMode). Restore takes
 * the value that relax returned. */
int fikit_capture_relax(void);
void fikit_capture_restore(int mode);

#endif
