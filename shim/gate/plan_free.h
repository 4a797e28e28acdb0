/* Freeing memory that a plan may be moving (carry.h): the free comes behind the moves, and nobody who must not wait for them waits. */
#ifndef FIKIT_SHIM_PLAN_FREE_H
#define FIKIT_SHIM_PLAN_FREE_H

#include "base/memory_abi.h"

/* Called before the driver frees the memory that begins at `at`; no further move of it begins. `stream`: in whose order it is freed; NULL: the program's work
 * with the memory is over. Returns the stream in whose order to free it: `stream`, which comes behind the moves of the memory by then, or, where `stream` must not
 * wait for them, a stream of the shim's own that comes behind both. One load where there never was a plan. */
CUstream fikit_plan_free(CUdeviceptr at, CUstream stream);

#endif
