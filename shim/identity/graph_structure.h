/* What a graph is made of: the same in every process that builds the same graph, whatever its handles are. */
#ifndef FIKIT_SHIM_GRAPH_STRUCTURE_H
#define FIKIT_SHIM_GRAPH_STRUCTURE_H

#include "base/device.h"
#include "identity/graph_abi.h"

struct fikit_graph_structure {
  uint64_t hash;                      /* of its nodes' kinds, its kernels and their shapes, sizes of copies, and its edges */
  uint64_t nodes_hash;                /* fikit_graph_nodes_hash() */
  size_t nodes;                       /* with those of child graphs */
  bool exclusive;                     /* holds a kernel that must never fill another job's gap (identity.h) */
  uint64_t memory_bytes;              /* most that its allocation nodes hold at a time, in the order of its edges */
  struct fikit_device *memory_device; /* where */
};

struct fikit_graph_structure fikit_graph_structure_of(CUgraph graph);

/* The nodes alone, in the order in which the driver lists them: for a graph whose edges are known not to have changed, in a tenth
 * of the time. 0: too many, or the driver does not tell. */
uint64_t fikit_graph_nodes_hash(CUgraph graph);

/* A kernel node, by what it launches. */
uint64_t fikit_kernel_node_hash(const CUDA_KERNEL_NODE_PARAMS *params);

/* The same of a node as it is now; false: it is no kernel node, or the driver does not tell. */
bool fikit_kernel_node_hash_of(CUgraphNode node, uint64_t *hash);

#endif
