/* The driver's calls about graphs: our own declarations, as in cuda_abi.h. */
#ifndef FIKIT_SHIM_GRAPH_ABI_H
#define FIKIT_SHIM_GRAPH_ABI_H

#include "base/memory_abi.h"

enum {
  CU_GRAPH_NODE_TYPE_MEMCPY = 1,
  CU_GRAPH_NODE_TYPE_MEMSET = 2,
  CU_GRAPH_NODE_TYPE_GRAPH = 4,
  CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10,
  CU_GRAPH_NODE_TYPE_MEM_FREE = 11,
};

/* Source and destination are not read: 11 words each. */
typedef struct {
  uint64_t from[11], to[11];
  size_t width, height, depth;
} CUDA_MEMCPY3D;

typedef struct {
  CUdeviceptr to;
  size_t pitch;
  unsigned value, element;
  size_t width, height;
} CUDA_MEMSET_NODE_PARAMS;

typedef struct {
  CUmemPoolProps pool;
  uint64_t rest_of_pool[9];
  const void *access;
  size_t access_count, bytes;
  CUdeviceptr pointer;
} CUDA_MEM_ALLOC_NODE_PARAMS;

/* What cuGraphExecNodeSetParams takes: a kind, three words of nothing, and that kind's parameters. */
typedef struct {
  int type, reserved[3];
  CUDA_KERNEL_NODE_PARAMS kernel; /* of a kernel node */
} CUgraphNodeParams;

FIKIT_API cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count);
FIKIT_API cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, uint64_t *data, size_t *count);
FIKIT_API cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph);
FIKIT_API cuGraphKernelNodeGetAttribute(CUgraphNode node, int attribute, void *value);
FIKIT_API cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *params);
FIKIT_API cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *params);
FIKIT_API cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params);
FIKIT_API cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *pointer);

/* Changes of an executable graph. */
FIKIT_API cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *bad, int *result);
FIKIT_API cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, void *result);
FIKIT_API cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params);
FIKIT_API cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params);
FIKIT_API cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params);
FIKIT_API cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled);

#endif
