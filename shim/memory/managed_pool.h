/* A pool of managed memory in the place of the GPU's default pool, for jobs whose memory may leave the GPU (convert.h): from it comes what
 * the program allocates in stream order. Drivers have such pools from CUDA 13 on. */
#ifndef FIKIT_SHIM_MANAGED_POOL_H
#define FIKIT_SHIM_MANAGED_POOL_H

#include "base/memory_abi.h"

#include <stdbool.h>

/* The pool that stands in for `pool`, or, for NULL, for the one from which cuMemAllocAsync allocates now on the calling thread's GPU. NULL: none
 * does; the program chose a pool of its own, or the driver has none that is managed, which one line says the first time. */
CUmemoryPool fikit_managed_pool_for(CUmemoryPool pool);

/* Memory from the pool, by its first byte. Gave: remember it; false: the shim has no memory for that. Has: is it remembered? Take: forget it, before the driver frees it;
 * true: it was remembered. After that it is not moved any more, even where the driver refuses to free it. Take waits for the piece of it that is being moved. */
bool fikit_managed_pool_gave(CUdeviceptr pointer);
bool fikit_managed_pool_has(CUdeviceptr pointer);
bool fikit_managed_pool_take(CUdeviceptr pointer);

/* The pool that the program knows for `pool`: the default pool for the managed one, else `pool` itself. */
CUmemoryPool fikit_managed_pool_shown(CUmemoryPool pool);

/* In the child of a fork: all of it is the parent's. */
void fikit_managed_pool_forget_all(void);

#endif
