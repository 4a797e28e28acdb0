/* Tells fikitd when granted launches are complete: by a mark that the GPU writes into the page (gpu_marker.h), or where that is impossible by
 * an event without timing, which the shim queries on later calls and reports as ENTRY_DONE. */
#ifndef FIKIT_SHIM_MARKER_H
#define FIKIT_SHIM_MARKER_H

#include "streams/stream.h"

struct fikit_markers *fikit_markers_new(void);

/* The granted launch `request_seq` was just issued to `stream` (`entry` in our table): mark its end, if it is the last of
 * its run. Not while any stream captures. */
void fikit_marker_set(struct fikit_device *device, struct fikit_stream *entry, CUstream stream, uint32_t slot,
                      uint32_t request_seq);

/* The same of a granted copy that the shim has put into a stream of its own: it is the last of no run of launches. `entry`: of the launch that it followed, in the
 * same context. */
void fikit_marker_behind_move(struct fikit_device *device, struct fikit_stream *entry, CUstream stream, uint32_t request_seq);

/* A launch to `stream` has to ask. If the launch before it went there too, and fikitd has ended its grant early, no mark stands behind that
 * launch yet: put one now. */
void fikit_marker_end_run(struct fikit_device *device, struct fikit_stream *entry, CUstream stream);

/* Report a granted launch that the driver refused as over, unless further launches may use its grant. */
void fikit_marker_skip(struct fikit_device *device, uint32_t slot, uint32_t request_seq);

/* Report the markers that have completed. True while some have not. */
bool fikit_markers_poll(struct fikit_device *device);

/* Returns once every thread that was querying a marker at the call has stopped. */
void fikit_markers_pass(struct fikit_device *device);

/* The context has gone, and its events with it. */
void fikit_markers_forget_context(struct fikit_device *device, CUcontext context);

#endif
