#include "hooks/look.h"
#include "gate/carry.h"
#include "gate/first_use.h"

/* What it waits for is no part of its time, nor is the time before it the program's own then. What it is the first to touch is a part of its time, as page faults are. */
struct fikit_timed *fikit_look_before(struct fikit_device *device, const struct fikit_stream *entry, CUstream stream, bool open) {
  uint64_t first_use = 0;
  const bool waits = fikit_plan_due(device) && fikit_plan_before(device, entry, stream, &first_use);
  struct fikit_timed *timed = fikit_measure_due(device) ? fikit_measure_begin(device, stream, open && !waits) : NULL;
  if (first_use)
    fikit_first_use_before(device, entry, stream, first_use);
  return timed ? timed : FIKIT_NOT_TIMED;
}

void fikit_look_after(struct fikit_device *device, struct fikit_stream *entry, CUstream stream, uint64_t seq) {
  fikit_plan_after(device, entry, stream, seq);
}
