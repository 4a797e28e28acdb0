// Parameters of graph nodes and of the calls about them, in our own declarations (see driver_api.hpp).
#pragma once

#include "libcuda/driver/driver_api.hpp"
#include "libcuda/memory/memory_api.hpp"

struct CUDA_MEMCPY_NODE_PARAMS {
  int flags, reserved;
  CUcontext copyCtx;
  CUDA_MEMCPY3D copyParams;
};

struct CUDA_BATCH_MEM_OP_NODE_PARAMS {
  CUcontext ctx;
  unsigned count;
  CUstreamBatchMemOpParams* paramArray;
  unsigned flags;
};

struct CUDA_MEM_ALLOC_NODE_PARAMS {
  CUmemPoolProps poolProps;
  const void* accessDescs;
  size_t accessDescCount;
  size_t bytesize;
  CUdeviceptr dptr;  // answer: the address, which stays for the node's life
};

struct CUDA_CHILD_GRAPH_NODE_PARAMS {
  CUgraph graph;
  int ownership;  // 0: the node has a copy; 1: the graph becomes the node's
};

// What cuGraphAddNode takes: the type says which member counts.
struct CUgraphNodeParams {
  int type;
  int reserved0[3];
  union {
    long long reserved1[29];
    CUDA_KERNEL_NODE_PARAMS_v2 kernel;
    CUDA_MEMCPY_NODE_PARAMS memcpy;
    CUDA_MEMSET_NODE_PARAMS memset;
    CUDA_HOST_NODE_PARAMS host;
    CUDA_CHILD_GRAPH_NODE_PARAMS graph;
    CUevent event;
    CUDA_MEM_ALLOC_NODE_PARAMS alloc;
    CUdeviceptr free;
    CUDA_BATCH_MEM_OP_NODE_PARAMS memOp;
  };
  long long reserved2;
};

// How much of a node must be done before the next begins; all zero: all of it.
struct CUgraphEdgeData {
  unsigned char from_port, to_port, type, reserved[5];
};

struct CUgraphExecUpdateResultInfo {
  int result;
  CUgraphNode errorNode, errorFromNode;
};

static_assert(sizeof(CUDA_MEMCPY_NODE_PARAMS) == 216);
static_assert(sizeof(CUDA_BATCH_MEM_OP_NODE_PARAMS) == 32);
static_assert(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS) == 120);
static_assert(sizeof(CUgraphNodeParams) == 256);
static_assert(sizeof(CUgraphEdgeData) == 8 && sizeof(CUgraphExecUpdateResultInfo) == 24);
