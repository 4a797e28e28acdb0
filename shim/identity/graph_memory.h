/* Which memory an executable graph touches, as far as the parameters of its nodes say: of its kernels as of any launch, and of its copies and
 * memsets. Kept for jobs of which fikitd learns what their kernels touch (memory/extents.h); for other jobs nothing here does anything. */
#ifndef FIKIT_SHIM_GRAPH_MEMORY_H
#define FIKIT_SHIM_GRAPH_MEMORY_H

#include "identity/graph_abi.h"
#include "memory/extents.h"

struct fikit_graph_memory;

/* Of the nodes of `graph`; NULL: nothing is learnt of this job, or memory of ours is short. What nobody has room for is left out. */
struct fikit_graph_memory *fikit_graph_memory_of(CUgraph graph);
void fikit_graph_memory_free(struct fikit_graph_memory *memory);

/* A node of the executable graph has new parameters, or is switched on or off. `memory` may be NULL. After fikit_graph_memory_of() a node that is
 * not one of that graph's is one more: what it had in the graph before is too much from then on. */
void fikit_graph_memory_kernel(struct fikit_graph_memory *memory, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params);
void fikit_graph_memory_copy(struct fikit_graph_memory *memory, CUgraphNode node, const CUDA_MEMCPY3D *params);
void fikit_graph_memory_fill(struct fikit_graph_memory *memory, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params);
void fikit_graph_memory_switch(struct fikit_graph_memory *memory, CUgraphNode node, bool off);

/* What its nodes touch, fewer and wider places where there are too many: `most` at most behind the `found` ones. Returns how many there are then. */
unsigned fikit_graph_memory_touches(const struct fikit_graph_memory *memory, const struct fikit_device *device, struct fikit_touch *touches,
                                    unsigned found, unsigned most);

#endif
