/* The structure of a graph: equal in all processes that build the same graph. */
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

/* Hash of the nodes alone, in the driver's order: a tenth of the time, for a graph whose edges are known to be unchanged. 0: too many nodes, or
 * the driver does not tell. */
uint64_t fikit_graph_nodes_hash(CUgraph graph);

/* What a kernel node launches; false: it is none, or the driver does not tell. */
bool fikit_kernel_node_params(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params);

/* Hash of what a kernel node launches. */
uint64_t fikit_kernel_node_hash(const CUDA_KERNEL_NODE_PARAMS *params);

/* The same of a node as it is now; false: it is no kernel node, or the driver does not tell. */
bool fikit_kernel_node_hash_of(CUgraphNode node, uint64_t *hash);

#endif
