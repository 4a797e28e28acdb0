/* Launches between two timing events, and what the events say once they have completed. */
#ifndef FIKIT_SHIM_TIMED_H
#define FIKIT_SHIM_TIMED_H

#include "device.h"

enum { FIKIT_TIMED = 4096 }; /* launches in flight that can be timed; a driver's queue holds fewer */

struct fikit_timed {
  CUevent start, end;
  CUcontext context; /* of the events; NULL: they are gone */
  CUstream stream;
  uint64_t before; /* as in the ring entry */
  uint64_t seq;
  uint32_t slot;
  bool open;                /* it did not wait at the gate */
  bool failed;              /* it has not completed, and will not */
  int64_t run_ns;           /* once completed; negative: unknown */
  int64_t gap_ns;           /* for so long was the device idle before it; negative: unknown */
  struct fikit_timed *next; /* in one of the lists of measure.c */
};

struct fikit_span {
  int64_t start_ns, end_ns;
  struct fikit_timed *timed;
};

/* Fill in run_ns and gap_ns of `count` completed launches, in launch order; `before`: the one before them, NULL: unknown.
 * `room`: for count + 1 spans. */
void fikit_timed_read(struct fikit_timed *const *launches, unsigned count, struct fikit_timed *before,
                      struct fikit_span *room);

#endif
