/* Carrying out fikitd's plan of this process's memory: which of it leaves the GPU and comes back behind which launch (struct fikit_plan). */
#ifndef FIKIT_SHIM_CARRY_H
#define FIKIT_SHIM_CARRY_H

#include "base/look.h"
#include "base/memory_abi.h"
#include "streams/stream.h"

/* Is there another plan than the one that is known, or none any more? Off the launch path. */
void fikit_plan_notice(struct fikit_device *device);

/* Something is due around the launch that begins now. */
static inline bool fikit_plan_due(const struct fikit_device *device) {
  return fikit_look_is_from(device, &device->plan_from);
}

/* Before and after the driver's call that launches onto `stream` (`entry` in our table); `seq`: the launch's number. Before: true, it waits
 * on the device for moves. After: the thread stands at the gate with moves where copies do. */
bool fikit_plan_before(struct fikit_device *device, const struct fikit_stream *entry, CUstream stream);
void fikit_plan_after(struct fikit_device *device, struct fikit_stream *entry, CUstream stream, uint64_t seq);

/* The program has taken memory that begins at `at`, in the order of the stream, and nobody else has heard of it yet: what of it the launch that comes next is
 * the first to touch is brought in that order, so that it begins without page faults. A guess that costs no more than time. One load where there is no plan. */
void fikit_plan_took(struct fikit_device *device, CUdeviceptr at, CUstream stream);

/* The context was destroyed. */
void fikit_plan_context_gone(CUcontext context);

/* In the child of a fork. */
void fikit_plan_forget_all(void);

#endif
