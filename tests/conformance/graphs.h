/* Prototypes and parameters of the calls about graphs and captures, for the programs about them. */
#ifndef GRAPHS_H
#define GRAPHS_H

#include "conformance.h"

enum { NODE_KERNEL = 0, NODE_MEMCPY, NODE_MEMSET, NODE_HOST, NODE_GRAPH, NODE_EMPTY, NODE_WAIT, NODE_RECORD, NODE_ALLOC = 10, NODE_FREE, NODE_BATCH };
enum { GLOBAL = 0, THREAD_LOCAL = 1, RELAXED = 2 };         /* modes of a capture */
enum { NONE = 0, ACTIVE = 1, INVALIDATED = 2 };             /* states of a captured stream */
enum { HOST_MEMORY = 1, DEVICE_MEMORY = 2 };
enum { WAIT_32 = 1, WRITE_32 = 2, EQUAL = 1 };              /* stream memory operations; how a wait compares */
enum { AUTO_FREE_ON_LAUNCH = 1 };

typedef struct {
  void (*function)(void *);
  void *data;
} HostNode;

typedef struct {
  CUdeviceptr target;
  size_t pitch;
  unsigned value, element_size;
  size_t width, height;
} MemsetNode;

typedef struct {
  size_t x, y, z, lod;
  unsigned type;
  const void *host;
  CUdeviceptr device;
  void *array, *reserved;
  size_t pitch, height;
} CopySide;

typedef struct {
  CopySide source, target;
  size_t width, height, depth;
} CopyNode;

typedef struct {
  unsigned operation;
  CUdeviceptr address;
  uint64_t value;
  unsigned flags;
  uint64_t reserved[2];
} MemOp;

typedef struct {
  CUcontext context;
  unsigned count;
  MemOp *operations;
  unsigned flags;
} BatchNode;

typedef struct {
  int type, handle_types, location, device;
  void *security;
  size_t most;
  unsigned short usage;
  unsigned char reserved[54];
  const void *access;
  size_t accesses, bytes;
  CUdeviceptr pointer;
} AllocNode;

typedef struct {
  KernelNode v1;
  CUkernel kernel;
  CUcontext context;
} KernelNodeV2;

typedef struct {
  int type, reserved0[3];
  union {
    long long reserved1[29];
    KernelNodeV2 kernel;
    struct {
      MemsetNode fill;
      CUcontext context;
    } memset;
    CUgraph child;
    CUevent event;
    AllocNode alloc;
    CUdeviceptr free;
    BatchNode batch;
  } of;
  long long reserved2;
} AnyNode;

typedef struct {
  int result;
  CUgraphNode node, from;
} UpdateInfo;

#define ADD CUgraphNode *, CUgraph, const CUgraphNode *, size_t
CUresult cuGraphAddMemcpyNode(ADD, const CopyNode *, CUcontext), cuGraphAddMemsetNode(ADD, const MemsetNode *, CUcontext);
CUresult cuGraphAddHostNode(ADD, const HostNode *), cuGraphAddEmptyNode(ADD), cuGraphAddChildGraphNode(ADD, CUgraph);
CUresult cuGraphAddEventRecordNode(ADD, CUevent), cuGraphAddEventWaitNode(ADD, CUevent), cuGraphAddBatchMemOpNode(ADD, const BatchNode *);
CUresult cuGraphAddMemAllocNode(ADD, AllocNode *), cuGraphAddMemFreeNode(ADD, CUdeviceptr), cuGraphAddNode(ADD, AnyNode *);
CUresult cuGraphAddNode_v2(CUgraphNode *, CUgraph, const CUgraphNode *, const void *, size_t, AnyNode *);
#undef ADD
CUresult cuGraphNodeGetType(CUgraphNode, int *), cuGraphChildGraphNodeGetGraph(CUgraphNode, CUgraph *);
CUresult cuGraphGetRootNodes(CUgraph, CUgraphNode *, size_t *), cuGraphGetEdges(CUgraph, CUgraphNode *, CUgraphNode *, size_t *);
CUresult cuGraphNodeGetDependencies(CUgraphNode, CUgraphNode *, size_t *), cuGraphNodeGetDependentNodes(CUgraphNode, CUgraphNode *, size_t *);
CUresult cuGraphAddDependencies(CUgraph, const CUgraphNode *, const CUgraphNode *, size_t);
CUresult cuGraphRemoveDependencies(CUgraph, const CUgraphNode *, const CUgraphNode *, size_t);
CUresult cuGraphDestroyNode(CUgraphNode), cuGraphClone(CUgraph *, CUgraph), cuGraphNodeFindInClone(CUgraphNode *, CUgraphNode, CUgraph);
CUresult cuGraphMemsetNodeGetParams(CUgraphNode, MemsetNode *), cuGraphMemsetNodeSetParams(CUgraphNode, const MemsetNode *);
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode, CopyNode *), cuGraphMemcpyNodeSetParams(CUgraphNode, const CopyNode *);
CUresult cuGraphHostNodeGetParams(CUgraphNode, HostNode *), cuGraphHostNodeSetParams(CUgraphNode, const HostNode *);
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode, CUevent *), cuGraphEventWaitNodeSetEvent(CUgraphNode, CUevent);
CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode, BatchNode *), cuGraphNodeSetParams(CUgraphNode, AnyNode *);
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode, AllocNode *), cuGraphMemFreeNodeGetParams(CUgraphNode, CUdeviceptr *);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long), cuGraphExecGetFlags(CUgraphExec, uint64_t *);
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec, CUgraphNode, const MemsetNode *, CUcontext);
CUresult cuGraphExecHostNodeSetParams(CUgraphExec, CUgraphNode, const HostNode *), cuGraphExecNodeSetParams(CUgraphExec, CUgraphNode, AnyNode *);
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec, CUgraphNode, CUgraph), cuGraphExecUpdate_v2(CUgraphExec, CUgraph, UpdateInfo *);
CUresult cuGraphExecUpdate(CUgraphExec, CUgraph, CUgraphNode *, int *), cuGraphUpload(CUgraphExec, CUstream);
CUresult cuGraphNodeSetEnabled(CUgraphExec, CUgraphNode, unsigned), cuGraphNodeGetEnabled(CUgraphExec, CUgraphNode, unsigned *);
CUresult cuDeviceGetGraphMemAttribute(CUdevice, int, void *), cuDeviceGraphMemTrim(CUdevice);
CUresult cuEventRecordWithFlags(CUevent, CUstream, unsigned), cuThreadExchangeStreamCaptureMode(int *);
CUresult cuStreamGetCaptureInfo_v2(CUstream, int *, unsigned long long *, CUgraph *, const CUgraphNode **, size_t *);
CUresult cuStreamUpdateCaptureDependencies(CUstream, CUgraphNode *, size_t, unsigned);
CUresult cuStreamBeginCaptureToGraph(CUstream, CUgraph, const CUgraphNode *, const void *, size_t, int);

__attribute__((unused)) static CUgraph new_graph(void) {
  CUgraph graph;
  OK(cuGraphCreate(&graph, 0));
  return graph;
}

__attribute__((unused)) static CUstream new_stream(unsigned flags) {
  CUstream stream;
  OK(cuStreamCreate(&stream, flags));
  return stream;
}

__attribute__((unused)) static CUevent new_event(void) {
  CUevent event;
  OK(cuEventCreate(&event, 0));
  return event;
}

__attribute__((unused)) static CUgraphExec instantiate(CUgraph graph) {
  CUgraphExec exec;
  OK(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
  return exec;
}

__attribute__((unused)) static void run(CUgraphExec exec) {
  OK(cuGraphLaunch(exec, NULL));
  OK(cuCtxSynchronize());
}

__attribute__((unused)) static long long node_count(CUgraph graph) {
  size_t count = 0;
  OK(cuGraphGetNodes(graph, NULL, &count));
  return (long long)count;
}

__attribute__((unused)) static int node_type(CUgraphNode node) {
  int type;
  OK(cuGraphNodeGetType(node, &type));
  return type;
}

__attribute__((unused)) static int capture_state(CUstream stream) {
  int state;
  OK(cuStreamIsCapturing(stream, &state));
  return state;
}

/* A node that stores expected + 1 at `counter` when `expected` is there, 0xdeadbeef otherwise. */
__attribute__((unused)) static CUgraphNode add_check(CUgraph graph, const CUgraphNode *after, CUfunction check, CUdeviceptr counter, uint32_t expected) {
  void *arguments[] = {&counter, &expected};
  const KernelNode node = {check, 1, 1, 1, 1, 1, 1, 0, arguments, NULL};
  CUgraphNode added;
  OK(cuGraphAddKernelNode(&added, graph, after, after != NULL, &node));
  return added;
}

#endif
