/* First uses (struct fikit_plan): what a launch is the first to touch since the program took the memory. It is brought to the GPU just before, so that the launch begins without
 * page faults; the plan counts it as being there from that launch on. A wrong guess costs time, once for each chunk that the program takes. */
#ifndef FIKIT_SHIM_FIRST_USE_H
#define FIKIT_SHIM_FIRST_USE_H

#include "base/device.h"
#include "base/memory_abi.h"
#include "streams/stream.h"

/* The program has taken memory that begins at `at`, in the order of the stream, and nobody else has heard of it yet: what of it the launch that comes next is
 * the first to touch is brought in that order. One load where there is no plan. */
void fikit_first_use_took(struct fikit_device *device, CUdeviceptr at, CUstream stream);

/* Before the driver's call that launches onto `stream` (`entry` in our table), of launch number `seq`, which has first uses: those of memory that is in no stream's order
 * (cuMemAlloc and its like) are brought in that stream. */
void fikit_first_use_before(struct fikit_device *device, const struct fikit_stream *entry, CUstream stream, uint64_t seq);

#endif
