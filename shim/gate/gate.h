/* The closed gate: ask, wait a bounded time, go. */
#ifndef FIKIT_SHIM_GATE_H
#define FIKIT_SHIM_GATE_H

#include "fikit_rules.h"
#include "streams/stream.h"

struct fikit_pass {
  enum fikit_entry_kind kind; /* LAUNCH: the gate opened; GRANTED: also as one of a run; EXPIRED */
  uint32_t request_seq;       /* of a grant */
};

/* Wait at a gate that was seen closed, with a launch for `stream` (`entry` in our table). Returns when the gate opens, fikitd
 * grants this launch, the lease has run out or fikitd is gone. */
struct fikit_pass fikit_gate_wait(struct fikit_device *device, struct fikit_stream *entry, CUstream stream, uint32_t slot);

/* The same for a copy of so many bytes. */
struct fikit_pass fikit_gate_wait_to_copy(struct fikit_device *device, enum fikit_copy copy, uint64_t bytes);

/* Wake every thread that waits at the gate of this process. */
void fikit_gate_wake(struct fikit_device *device);

#endif
