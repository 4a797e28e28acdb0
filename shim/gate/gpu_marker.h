/* Marks: numbers that the GPU writes into the page when it comes to them in a stream. fikitd sees the progress without the program's help, also
 * while that computes on the host. Only on devices that can write host memory from a stream. */
#ifndef FIKIT_SHIM_GPU_MARKER_H
#define FIKIT_SHIM_GPU_MARKER_H

#include "fikit_rules.h"
#include "streams/stream.h"

struct fikit_gpu_markers *fikit_gpu_markers_new(void);

/* Has fikitd asked for a mark behind this launch? `seq`: its launch_seq, 0 = the driver refused it. */
static inline bool fikit_gpu_marker_wanted(const struct fikit_device *device, uint32_t slot, uint64_t seq) {
  return fikit_mark_wanted(device->page, &device->marked, slot, seq);
}

/* Put a mark behind the work of `stream` (`entry` in our table) and announce it: ENTRY_MARK. Not while a stream captures, nor while other
 * streams may have work, because the mark would then prove nothing. */
void fikit_gpu_marker_progress(struct fikit_device *device, struct fikit_stream *entry, CUstream stream);

/* The same for the granted launch `request_seq`: ENTRY_MARK_GRANT. False: there is no mark. */
bool fikit_gpu_marker_grant(struct fikit_device *device, struct fikit_stream *entry, CUstream stream,
                           uint32_t request_seq);

/* The context is gone, and with it its work and what was registered in it. */
void fikit_gpu_markers_forget_context(struct fikit_device *device, CUcontext context);

#endif
