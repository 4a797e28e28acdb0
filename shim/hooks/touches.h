/* Which memory a launch touches, as far as its arguments say: for launches that are timed anyway, in jobs whose memory is moved. */
#ifndef FIKIT_SHIM_TOUCHES_H
#define FIKIT_SHIM_TOUCHES_H

#include "timing/measure.h"

/* What a launch was called with; both NULL: it is no kernel, or has no arguments. */
struct fikit_arguments {
  uintptr_t function; /* CUfunction or CUkernel */
  void **params, **extra;
};

/* The end of a launch that is timed, as fikit_measure_end has it; and what it touches. That is looked at only after the driver has
 * taken the launch: all that its own table of parameters says is there has been read by then. Puts ENTRY_TOUCHES and one ENTRY_TOUCH for
 * each place; nothing where the driver has no such table (before CUDA 12.4). */
void fikit_touches_timed(struct fikit_device *device, struct fikit_timed *timed, CUstream stream, uint32_t slot, uint64_t seq,
                         int64_t called_ns, const struct fikit_arguments *arguments);

#endif
