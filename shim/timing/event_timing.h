/* Launches between two timing events, and what the events say once they have completed. */
#ifndef FIKIT_SHIM_EVENT_TIMING_H
#define FIKIT_SHIM_EVENT_TIMING_H

#include "base/device.h"

enum { FIKIT_TIMED = 4096 }; /* launches in flight that can be timed; a driver's queue holds fewer */

struct fikit_timed {
  CUevent start, end;
  CUcontext context; /* of the events; NULL: they are gone */
  CUstream stream;
  uint64_t before; /* as in the ring entry */
  uint64_t seq;
  uint32_t slot;
  bool open;                /* it did not wait at the gate */
  bool busy;                /* its stream had work until the kernel and its events were on their way */
  bool doubtful;            /* its call took unusually long, on an idle stream */
  bool first;               /* the first launch of its slot */
  bool extra;               /* timed only for that reason: not part of the cost of sampling */
  int64_t call_ns;          /* the host's time between its start and the end of the driver's call */
  bool failed;              /* it will not complete */
  bool completed;           /* or failed */
  bool read;                /* its events have been read */
  bool neighbour;           /* it followed the launch before it directly, so that the gap between the two is known */
  int64_t run_ns;           /* once completed; negative: unknown */
  int64_t gap_ns;           /* how long the device was idle before it; negative: unknown */
  struct fikit_timed *next; /* in one of the lists of struct fikit_measure */
};

struct fikit_span {
  int64_t start_ns, end_ns;
  struct fikit_timed *timed; /* NULL: of a launch that was read before */
};

/* Spans of launches that have been read while others, launched with them, have not completed: in the order of their ends, in times from the start
 * of `origin`, the newest launch that has been read. */
struct fikit_spans {
  const struct fikit_timed *origin;
  unsigned count;
  struct fikit_span spans[2 * FIKIT_TIMED];
};

/* False for launches that did not follow each other directly, or of which one waited at the gate: no gap is known between them. */
static inline bool fikit_timed_neighbours(const struct fikit_timed *before, const struct fikit_timed *timed) {
  return before && !before->failed && before->context == timed->context && before->seq + 1 == timed->seq &&
         before->open && timed->open;
}

/* Fill in run_ns and gap_ns of `count` completed launches, in launch order. `before`: the launch before them; NULL: unknown. With several streams,
 * each launch that completed before one of these must be among them or in `earlier`, to which they are added. */
void fikit_timed_read(struct fikit_timed *const *launches, unsigned count, const struct fikit_timed *before, bool several,
                      struct fikit_spans *earlier);

/* All launches that complete from now on began after the end of all of `spans`: keep the last one only. */
void fikit_spans_keep_last(struct fikit_spans *spans);

#endif
