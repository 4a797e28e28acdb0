/* Which streams capture. While any does, the shim records, queries and synchronises nothing. */
#ifndef FIKIT_SHIM_CAPTURE_H
#define FIKIT_SHIM_CAPTURE_H

#include "cuda_abi.h"

#include <stdatomic.h>
#include <stdbool.h>

extern _Atomic int fikit_captures; /* captures going on in this process */

static inline bool fikit_capture_anywhere(void) {
  return atomic_load_explicit(&fikit_captures, memory_order_relaxed) > 0;
}

/* True if a launch into this stream (NULL not allowed) would be captured instead of run. A capture spreads through
 * events, hence the question to the driver; it is asked only while some capture is going on. */
bool fikit_stream_captures(CUstream stream);

/* The stream was destroyed; its capture ended with it. */
void fikit_capture_forget(CUstream stream);

#endif
