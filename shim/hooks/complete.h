/* The end of a host's wait: what it has proved complete is reported, by each room that keeps some of it. */
#ifndef FIKIT_SHIM_COMPLETE_H
#define FIKIT_SHIM_COMPLETE_H

#include "streams/stream.h"

/* Every launch counted in `issued` of this managed stream is complete. began_ns: since when the host has waited for it; 0: it only asked. */
void fikit_complete_stream(struct fikit_stream *stream, uint64_t issued, int64_t began_ns);

/* A synchronisation of the whole context has succeeded (fikit_drain_begin stood before it). */
void fikit_complete_context(const struct fikit_drain *drain);

#endif
