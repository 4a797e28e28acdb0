/* Has a context work? A call that waits for a context may wait for a kernel which stands until the calling thread goes on: whoever makes such a call for the shim's own sake
 * asks before. */
#ifndef FIKIT_SHIM_IDLE_H
#define FIKIT_SHIM_IDLE_H

#include "base/cuda_abi.h"
#include "base/idle.h"

#include <stdbool.h>
#include <stdint.h>

/* Of the calling thread's current context; waits 50 us at most. Of all callers one at a time asks, under a lock that is passed before a context ends: it queries an event. BUSY
 * also while a stream captures, or while an answer of another context is out. Drivers say it from CUDA 12.5 on. */
enum fikit_idle fikit_idle(CUcontext context);

/* The context was destroyed, and our event with it. Under that lock. */
void fikit_idle_context_gone(CUcontext context);

/* An event behind all that the context, which is current, has now. At most one is out, of all contexts. False: one is, or none is to be had now. These three, too, under a
 * lock that is passed before a context ends. */
bool fikit_context_event_put(CUcontext context);

/* True once: what this context had when the event was put is over. Waits so long at most. */
bool fikit_context_event_over(CUcontext context, int64_t patience_ns);

void fikit_context_event_context_gone(CUcontext context);

/* In the child of a fork. */
void fikit_idle_forget_all(void);

#endif
