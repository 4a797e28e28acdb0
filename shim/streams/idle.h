/* Has a context work? A call that waits for a context may wait for a kernel which stands until the calling thread goes on: whoever makes such a call for the shim's own sake
 * asks before. */
#ifndef FIKIT_SHIM_IDLE_H
#define FIKIT_SHIM_IDLE_H

#include "base/cuda_abi.h"
#include "base/idle.h"

/* Of the calling thread's current context; waits 50 us at most. Of all callers one at a time asks, under a lock that is passed before a context ends: it queries an event. BUSY
 * also while a stream captures, or while an answer of another context is out. Drivers say it from CUDA 12.5 on. */
enum fikit_idle fikit_idle(CUcontext context);

/* The context was destroyed, and our event with it. Under that lock. */
void fikit_idle_context_gone(CUcontext context);

/* In the child of a fork. */
void fikit_idle_forget_all(void);

#endif
