/* Executable graphs whose kernels the program has changed. */
#ifndef FIKIT_SHIM_GRAPH_H
#define FIKIT_SHIM_GRAPH_H

#include <stdint.h>

struct fikit_name;

/* Before the first launch of an executable graph that has no name, because it is another graph since the launch before: name it.
 * NULL: the handle is no executable graph's, or there is no name to be had. */
const struct fikit_name *fikit_graph_rename(uintptr_t handle);

#endif
