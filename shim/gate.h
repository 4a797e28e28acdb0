/* The closed gate: ask, wait a bounded time, go. */
#ifndef FIKIT_SHIM_GATE_H
#define FIKIT_SHIM_GATE_H

#include "device.h"

struct fikit_pass {
  enum fikit_entry_kind kind; /* LAUNCH: the gate opened; GRANTED; EXPIRED */
  uint32_t request_seq;       /* of a grant */
};

/* Wait at a gate that was seen closed. Returns when the gate opens, fikitd grants this launch, the lease has run out
 * or fikitd is gone. */
struct fikit_pass fikit_gate_wait(struct fikit_device *device, uint32_t slot);

/* Wake every thread that waits at the gate of this process. */
void fikit_gate_wake(struct fikit_device *device);

#endif
