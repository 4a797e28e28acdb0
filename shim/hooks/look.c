#include "hooks/look.h"
#include "gate/carry.h"

/* What it waits for is no part of its time, nor is the time before it the program's own then. */
struct fikit_timed *fikit_look_before(struct fikit_device *device, const struct fikit_stream *entry, CUstream stream, bool open) {
  const bool waits = fikit_plan_due(device) && fikit_plan_before(device, entry, stream);
  struct fikit_timed *timed = fikit_measure_due(device) ? fikit_measure_begin(device, stream, open && !waits) : NULL;
  return timed ? timed : FIKIT_NOT_TIMED;
}

void fikit_look_after(struct fikit_device *device, struct fikit_stream *entry, CUstream stream, uint64_t seq) {
  fikit_plan_after(device, entry, stream, seq);
}
