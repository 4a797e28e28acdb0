/* The driver's call that moves managed memory, and the context for it. */
#ifndef FIKIT_SHIM_PREFETCH_H
#define FIKIT_SHIM_PREFETCH_H

#include "memory/movable.h"

/* False: the calling thread has no context, or one is being destroyed (streams/context_end.h). */
bool fikit_prefetch_context(CUcontext *context, CUdevice *device);

/* Makes a stream in the current context that no default stream waits for; NULL: the driver refuses. */
CUstream fikit_prefetch_stream(void);

/* Asynchronous, on a stream of the current context. */
CUresult fikit_prefetch(const struct fikit_piece *piece, CUdevice device, CUstream stream);

#endif
