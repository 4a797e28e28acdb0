/*
 * How much unfinished work a process may have while its gate is open: about FIKIT_STORED_NS of it, where the page says `bounded`. Who comes later and goes first would have to
 * wait for what is stored.
 */
#ifndef FIKIT_SHIM_BOUND_H
#define FIKIT_SHIM_BOUND_H

#include "base/look.h"
#include "streams/stream.h"

/* A page was attached. False: there is no memory. */
bool fikit_bound_start(struct fikit_device *device);

static inline bool fikit_bound_due(const struct fikit_device *device) {
  return fikit_look_is_from(device, &device->bound_from);
}

/* Before a launch into `stream` (`entry` in our table) through an open gate, where it is due: waits while too much is unfinished. Work that does not run for one second, in
 * all of a process's waits, is let go: the GPU may be waiting for the host. */
void fikit_bound_wait(struct fikit_device *device, struct fikit_stream *entry, CUstream stream);

/* Work was let go, and still does not run. A stream holds about a thousand works: nothing of the shim's goes into one, or a program could not store there what it stores
 * without fikit. */
bool fikit_bound_stuck(const struct fikit_device *device);

#endif
