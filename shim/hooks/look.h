/* A launch that is looked at (base/look.h): it is timed, and what it touches is reported, or memory moves around it. Off the path of others. */
#ifndef FIKIT_SHIM_HOOKS_LOOK_H
#define FIKIT_SHIM_HOOKS_LOOK_H

#include "hooks/touches.h"
#include "streams/stream.h"

/* A launch that is looked at and not timed. */
#define FIKIT_NOT_TIMED ((struct fikit_timed *)1)

/* Before it; never NULL. `open`: it did not wait at the gate. */
struct fikit_timed *fikit_look_before(struct fikit_device *device, const struct fikit_stream *entry, CUstream stream, bool open);

/* After it, when all that is said of other launches has been said of it; `seq`: its number, 0: the driver refused it. */
void fikit_look_after(struct fikit_device *device, struct fikit_stream *entry, CUstream stream, uint64_t seq);

#endif
