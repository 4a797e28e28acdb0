/* Which memory a launch touches, as far as its arguments say, and copies and memsets before it: for launches that are timed anyway, in jobs whose
 * memory is moved. */
#ifndef FIKIT_SHIM_TOUCHES_H
#define FIKIT_SHIM_TOUCHES_H

#include "identity/arguments.h"
#include "memory/extents.h"
#include "timing/measure.h"

/* What is launched. Neither: a memset or a copy within the device, or a kernel whose arguments are not known. */
struct fikit_launched {
  struct fikit_arguments kernel; /* function NULL: none */
  CUgraphExec graph;
};

/* The end of a launch that is timed, as fikit_measure_end has it; and what it touches. That is looked at only after the driver has
 * taken the launch. Puts ENTRY_TOUCHES and one ENTRY_TOUCH for each place; nothing where nobody knows. */
void fikit_touches_timed(struct fikit_device *device, struct fikit_timed *timed, CUstream stream, uint32_t slot, uint64_t seq,
                         int64_t called_ns, const struct fikit_launched *launched);

/* The rest of fikit_touches_copied(). */
void fikit_touches_remember(CUstream stream, const struct fikit_range *range);

/* A copy or memset on this stream (NULL not allowed) touches this memory, as far as it is the program's own on the GPU. It belongs to the
 * launch that comes next, and is remembered where that may be looked at. One load in other jobs. */
static inline void fikit_touches_copied(CUstream stream, CUdeviceptr at, size_t bytes) {
  if (__builtin_expect(fikit_extents_any(), 0))
    fikit_touches_remember(stream, &(struct fikit_range){at, bytes});
}

#endif
