/* Memory of a job that may have more than the GPU (--fikit-mem-host): its allocations are made managed memory, which leaves the
 * GPU while others need the room. For other jobs nothing here does anything. */
#ifndef FIKIT_SHIM_CONVERT_H
#define FIKIT_SHIM_CONVERT_H

#include "memory/allocation.h"

/* Whether an allocation of `bytes` becomes managed memory. */
bool fikit_converts(const struct fikit_place *place, uint64_t bytes);

/* Allocate managed memory in the place of plain memory; *result: the answer for the program. False: it must be plain after
 * all, and nothing is counted. */
bool fikit_convert(const struct fikit_place *place, CUdeviceptr *out, uint64_t bytes, CUresult *result);

/* Before the driver frees `pointer`: forget that it was converted, since another thread may be given the same address at
 * once. Its bytes if it was, else 0; then, with the driver's answer, fikit_converted_freed. */
uint64_t fikit_converted_take(CUdeviceptr pointer);
void fikit_converted_freed(CUdeviceptr pointer, uint64_t taken, CUresult result);

/* Memory was converted elsewhere (hooks/pool.c): from now on the program's questions about pointers are answered as for plain memory. */
void fikit_convert_seen(void);

/* Whether memory at `pointer` was converted: device memory to whoever asks, wherever its pages are. */
bool fikit_is_converted(CUdeviceptr pointer);

/* Allocations of a context that was destroyed are freed. */
void fikit_convert_context_gone(CUcontext context);

/* In the child of a fork. */
void fikit_convert_forget_all(void);

#endif
