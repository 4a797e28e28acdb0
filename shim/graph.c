/*
 * A graph launch is one unit. Its identity is the structure of the graph that it was made from; where the program changes
 * kernels of the executable graph afterwards, the changes that make another kernel of a node are part of it, others are not:
 * new arguments leave it the same graph, a new grid or a node switched off make it another one, and back again.
 */
#include "allocation.h"
#include "graph_structure.h"
#include "identity.h"
#include "symbols.h"

#include <stdio.h>
#include <stdlib.h>

struct change {
  CUgraphNode node;
  uint64_t before, now; /* hash of its kernel */
  bool off;
  struct change *next;
};

struct executable {
  struct fikit_graph_structure made_from;
  struct change *changes;
};

static HANDLE_MAP(executables); /* CUgraphExec -> struct executable */
FIKIT_LOCK(changing);

static void name_it(CUgraphExec exec, const struct executable *executable) {
  char text[48];
  uint64_t hash = executable->made_from.hash;
  for (const struct change *change = executable->changes; change; change = change->next)
    if (change->off || change->now != change->before)
      hash += fikit_mix(fikit_mix(change->before, change->off), change->off ? 0 : change->now);
  snprintf(text, sizeof text, "graph of %zu nodes", executable->made_from.nodes);
  const struct fikit_name *name = fikit_graph_name_of(text, hash, executable->made_from.exclusive);
  if (name)
    handle_map_put(&fikit_names, (uintptr_t)exec, (uintptr_t)name, 0);
}

static void drop_changes(struct executable *executable) {
  while (executable->changes) {
    struct change *change = executable->changes;
    executable->changes = change->next;
    free(change);
  }
}

static void instantiated(CUgraphExec exec, const struct fikit_graph_structure *structure) {
  struct executable *executable = calloc(1, sizeof *executable);
  if (!executable)
    return;
  executable->made_from = *structure;
  if (handle_map_put(&executables, (uintptr_t)exec, (uintptr_t)executable, 0))
    name_it(exec, executable);
  else
    free(executable);
}

/* Its memory is taken at the launch, and kept for the next one: it is counted from here to the end of the executable. */
#define INSTANTIATE(call)                                                                           \
  do {                                                                                              \
    const struct fikit_graph_structure structure = fikit_graph_structure_of(graph);                 \
    const struct fikit_place place = {structure.memory_device, NULL};                               \
    if (!fikit_memory_reserve(place.device, structure.memory_bytes))                                \
      return CUDA_ERROR_OUT_OF_MEMORY;                                                              \
    const CUresult result = (call);                                                                 \
    if (structure.memory_bytes)                                                                     \
      fikit_allocated(&place, structure.memory_bytes, result == CUDA_SUCCESS ? (uintptr_t)*exec : 0); \
    if (result == CUDA_SUCCESS)                                                                     \
      instantiated(*exec, &structure);                                                              \
    return result;                                                                                  \
  } while (0)

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *bad, char *log, size_t bytes) {
  INSTANTIATE(REAL(cuGraphInstantiate)(exec, graph, bad, log, bytes));
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *bad, char *log, size_t bytes) {
  INSTANTIATE(REAL(cuGraphInstantiate_v2)(exec, graph, bad, log, bytes));
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  INSTANTIATE(REAL(cuGraphInstantiateWithFlags)(exec, graph, flags));
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, void *params) {
  INSTANTIATE(REAL(cuGraphInstantiateWithParams)(exec, graph, params));
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph, void *params) {
  INSTANTIATE(REAL(cuGraphInstantiateWithParams_ptsz)(exec, graph, params));
}

/* Forgotten first: another thread may be given the same handle at once. */
CUresult cuGraphExecDestroy(CUgraphExec exec) {
  handle_map_erase(&fikit_names, (uintptr_t)exec);
  struct executable *executable = (void *)handle_map_take(&executables, (uintptr_t)exec);
  if (executable)
    drop_changes(executable);
  free(executable);
  FIKIT_FREE(exec, REAL(cuGraphExecDestroy)(exec));
}

/* The whole of it becomes another graph. */
static CUresult updated(CUresult result, CUgraphExec exec, CUgraph graph) {
  if (result != CUDA_SUCCESS)
    return result;
  const struct fikit_graph_structure structure = fikit_graph_structure_of(graph);
  if (!fikit_lock_around(&changing))
    return result;
  struct executable *executable = (void *)handle_map_get(&executables, (uintptr_t)exec);
  if (executable) {
    drop_changes(executable);
    executable->made_from = structure;
    name_it(exec, executable);
  }
  fikit_unlock_around(&changing);
  return result;
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *bad, int *outcome) {
  return updated(REAL(cuGraphExecUpdate)(exec, graph, bad, outcome), exec, graph);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, void *outcome) {
  return updated(REAL(cuGraphExecUpdate_v2)(exec, graph, outcome), exec, graph);
}

/* Under `changing`. */
static struct change *find(const struct executable *executable, CUgraphNode node) {
  struct change *change = executable->changes;
  while (change && change->node != node)
    change = change->next;
  return change;
}

static struct change *remember(struct executable *executable, CUgraphNode node, uint64_t before) {
  struct change *change = calloc(1, sizeof *change);
  if (change) {
    *change = (struct change){node, before, before, false, executable->changes};
    executable->changes = change;
  }
  return change;
}

/* The program did this to a node: `now` another kernel, or it is switched on or off. `before`: what the graph had there. */
static void note(CUgraphExec exec, CUgraphNode node, uint64_t before, const uint64_t *now, const bool *off) {
  if (!fikit_lock_around(&changing))
    return;
  struct executable *executable = (void *)handle_map_get(&executables, (uintptr_t)exec);
  struct change *change = executable ? find(executable, node) : NULL;
  const bool nothing = now ? *now == before : !*off;
  if (executable && !change && !nothing)
    change = remember(executable, node, before);
  if (change && ((now && change->now != *now) || (off && change->off != *off))) {
    if (now)
      change->now = *now;
    else
      change->off = *off;
    name_it(exec, executable);
  }
  fikit_unlock_around(&changing);
}

/* Programs set new arguments for each launch: a node whose kernel stays what it was is not remembered. */
static void kernel_changed(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
  const uint64_t now = fikit_kernel_node_hash(params);
  uint64_t before;
  if (fikit_kernel_node_hash_of(node, &before))
    note(exec, node, before, &now, NULL);
}

/* Version 1 ends before the kernel's handle of version 2, which is not read. */
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
  const CUresult result = REAL(cuGraphExecKernelNodeSetParams)(exec, node, params);
  if (result == CUDA_SUCCESS && params->func)
    kernel_changed(exec, node, params);
  return result;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
  const CUresult result = REAL(cuGraphExecKernelNodeSetParams_v2)(exec, node, params);
  if (result == CUDA_SUCCESS)
    kernel_changed(exec, node, params);
  return result;
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params) {
  const CUresult result = REAL(cuGraphExecNodeSetParams)(exec, node, params);
  if (result == CUDA_SUCCESS && params->type == CU_GRAPH_NODE_TYPE_KERNEL)
    kernel_changed(exec, node, &params->kernel);
  return result;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  const CUresult result = REAL(cuGraphNodeSetEnabled)(exec, node, enabled);
  if (result != CUDA_SUCCESS)
    return result;
  uint64_t before = 0; /* of a copy or a fill */
  const bool off = !enabled;
  fikit_kernel_node_hash_of(node, &before);
  note(exec, node, before, NULL, &off);
  return result;
}
