/* Completion of granted launches: a mark that the GPU writes into the page, where fikitd looks for itself (gpu_marker.h);
 * where that cannot be, an event without timing, which we look at when we come by and report as ENTRY_DONE. */
#ifndef FIKIT_SHIM_MARKER_H
#define FIKIT_SHIM_MARKER_H

#include "streams/stream.h"

struct fikit_markers *fikit_markers_new(void);

/* The granted launch `request_seq` was just issued to `stream` (`entry` in our table): mark its end, if it is the last of
 * its run. Not while any stream captures. */
void fikit_marker_set(struct fikit_device *device, struct fikit_stream *entry, CUstream stream, uint32_t slot,
                      uint32_t request_seq);

/* Its process has to ask again, for a launch to `stream`: if fikitd has ended the run of the launch before, of whose end nothing
 * would be said, and that one went there, too, mark it now. */
void fikit_marker_end_run(struct fikit_device *device, struct fikit_stream *entry, CUstream stream);

/* Report the granted launch as over without a marker: the driver refused it. Unless others may still use its grant. */
void fikit_marker_skip(struct fikit_device *device, uint32_t slot, uint32_t request_seq);

/* Report the markers that have completed. True while some are still out. */
bool fikit_markers_poll(struct fikit_device *device);

/* Returns when no thread is looking at a marker that was when it was called. */
void fikit_markers_pass(struct fikit_device *device);

/* The context has gone, and its events with it. */
void fikit_markers_forget_context(struct fikit_device *device, CUcontext context);

#endif
