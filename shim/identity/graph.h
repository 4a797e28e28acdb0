/* Executable graphs whose kernels the program has changed. */
#ifndef FIKIT_SHIM_GRAPH_H
#define FIKIT_SHIM_GRAPH_H

#include "memory/extents.h"

#include "base/cuda_abi.h"

struct fikit_name;

/* Name an executable graph that lost its name by a change, before its next launch. NULL: the handle is no executable graph's, or no name can be
 * made. */
const struct fikit_name *fikit_graph_rename(uintptr_t handle);

/* Behind the places that are there: those that a launch of it touches (graph_memory.h), `most` in all. False: that is not known. */
bool fikit_graph_touches(CUgraphExec exec, const struct fikit_device *device, struct fikit_touch *touches, unsigned *found, unsigned most);

#endif
