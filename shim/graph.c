/* A graph launch is one unit. Its identity is its structure: how many nodes, and which kernels in which shapes. */
#include "identity.h"
#include "symbols.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_NODES = 4096 }; /* a larger graph is known by its number of nodes alone */

static uint64_t node_hash(CUgraphNode node) {
  CUDA_KERNEL_NODE_PARAMS params = {0};
  int type = -1;
  REAL(cuGraphNodeGetType)(node, &type);
  if (type != CU_GRAPH_NODE_TYPE_KERNEL)
    return (uint64_t)(unsigned)type;
  CUresult result = HAS(cuGraphKernelNodeGetParams_v2) ? REAL(cuGraphKernelNodeGetParams_v2)(node, &params)
                                                       : REAL(cuGraphKernelNodeGetParams)(node, &params);
  if (result != CUDA_SUCCESS)
    return (uint64_t)(unsigned)type;
  uintptr_t handle = params.func ? (uintptr_t)params.func : (uintptr_t)params.kern;
  const struct fikit_name *name = (const void *)handle_map_get(&fikit_names, handle);
  uint64_t hash = fikit_mix(name ? name->key : 0, params.gridDimX | (uint64_t)params.gridDimY << 32);
  hash = fikit_mix(hash, params.gridDimZ | (uint64_t)params.blockDimX << 32);
  hash = fikit_mix(hash, params.blockDimY | (uint64_t)params.blockDimZ << 32);
  return fikit_mix(hash, params.sharedMemBytes);
}

static uint64_t structure_hash(CUgraph graph, size_t *nodes) {
  *nodes = 0;
  if (REAL(cuGraphGetNodes)(graph, NULL, nodes) != CUDA_SUCCESS)
    return 0;
  uint64_t hash = *nodes;
  CUgraphNode *list = *nodes <= MOST_NODES ? calloc(*nodes + 1, sizeof(CUgraphNode)) : NULL;
  if (list && REAL(cuGraphGetNodes)(graph, list, nodes) == CUDA_SUCCESS)
    for (size_t i = 0; i < *nodes; i++)
      hash = fikit_mix(hash, node_hash(list[i]));
  free(list);
  return hash;
}

static CUresult instantiated(CUresult result, const CUgraphExec *exec, CUgraph graph) {
  char name[48];
  size_t nodes;
  if (result != CUDA_SUCCESS)
    return result;
  uint64_t hash = structure_hash(graph, &nodes);
  snprintf(name, sizeof name, "graph of %zu nodes", nodes);
  const struct fikit_name *record = fikit_name_of(name, hash);
  if (record)
    handle_map_put(&fikit_names, (uintptr_t)*exec, (uintptr_t)record, 0);
  return result;
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *bad, char *log, size_t bytes) {
  return instantiated(REAL(cuGraphInstantiate)(exec, graph, bad, log, bytes), exec, graph);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *bad, char *log, size_t bytes) {
  return instantiated(REAL(cuGraphInstantiate_v2)(exec, graph, bad, log, bytes), exec, graph);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  return instantiated(REAL(cuGraphInstantiateWithFlags)(exec, graph, flags), exec, graph);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, void *params) {
  return instantiated(REAL(cuGraphInstantiateWithParams)(exec, graph, params), exec, graph);
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph, void *params) {
  return instantiated(REAL(cuGraphInstantiateWithParams_ptsz)(exec, graph, params), exec, graph);
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  handle_map_erase(&fikit_names, (uintptr_t)exec);
  return REAL(cuGraphExecDestroy)(exec);
}
