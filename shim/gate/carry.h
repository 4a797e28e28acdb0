/* Carrying out fikitd's plan of this process's memory: which of it leaves the GPU and comes back behind which launch (struct fikit_plan). */
#ifndef FIKIT_SHIM_CARRY_H
#define FIKIT_SHIM_CARRY_H

#include "base/look.h"
#include "streams/stream.h"

/* Is there another plan than the one that is known, or none any more? Off the launch path. */
void fikit_plan_notice(struct fikit_device *device);

/* Something is due around the launch that begins now. */
static inline bool fikit_plan_due(const struct fikit_device *device) {
  return fikit_look_is_from(device, &device->plan_from);
}

/* Before and after the driver's call that launches onto `stream` (`entry` in our table); `seq`: the launch's number. Before: true, it waits
 * on the device for moves; *first_use: its number where it has first uses, else 0. After: the thread stands at the gate with moves where copies do. */
bool fikit_plan_before(struct fikit_device *device, const struct fikit_stream *entry, CUstream stream, uint64_t *first_use);
void fikit_plan_after(struct fikit_device *device, struct fikit_stream *entry, CUstream stream, uint64_t seq);

/* A plan was taken and not withdrawn, or one was refused. One load. */
bool fikit_plan_any(void);

/* Under the lock of the movable memory: the plan by which memory of this device is moved now. NULL: there is none, it is over, or it waits for the end of a capture or of
 * a move to a goal (gate/move.c). */
struct fikit_taken_plan *fikit_plan_carried(const struct fikit_device *device);

/* The context was destroyed. */
void fikit_plan_context_gone(CUcontext context);

/* In the child of a fork. */
void fikit_plan_forget_all(void);

#endif
