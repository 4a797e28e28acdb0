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
  union { /* by the kind of node */
    CUDA_KERNEL_NODE_PARAMS kernel;
    struct {
      int flags, reserved;
      CUcontext context;
      CUDA_MEMCPY3D copy;
    } copy;
    CUDA_MEMSET_NODE_PARAMS fill; /* and its context */
  };
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
FIKIT_API cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params, CUcontext context);
FIKIT_API cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context);
FIKIT_API cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled);

#endif
