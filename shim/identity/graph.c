/*
 * A graph launch is one unit. Its identity is the structure of the graph that the executable was made from, and the changes to the executable
 * since that make a node another kernel: a new grid or a node switched off change the identity, and undoing them restores it. New arguments
 * change nothing.
 */
#include "identity/graph.h"
#include "memory/allocation.h"
#include "identity/graph_memory.h"
#include "identity/graph_structure.h"
#include "identity/identity.h"
#include "base/symbols.h"

#include <stdio.h>
#include <stdlib.h>

struct change {
  CUgraphNode node; /* NULL: a free place */
  uint64_t before, now; /* hash of its kernel */
  bool off;
};

struct executable {
  struct fikit_graph_structure made_from;
  const struct fikit_name *name; /* the newest */
  bool nameless;                 /* has become another graph since */
  struct change *changes;        /* open addressing, never more than half full */
  size_t places, used;
  uint64_t changed;              /* of all changes, as they enter the identity */
  struct fikit_graph_memory *memory; /* that it touches; NULL: not known */
};

static HANDLE_MAP(executables); /* CUgraphExec -> struct executable */
FIKIT_LOCK(changing);

static void name_it(CUgraphExec exec, struct executable *executable) {
  char text[48];
  snprintf(text, sizeof text, "graph of %zu nodes", executable->made_from.nodes);
  const struct fikit_name *name =
      fikit_graph_name_of(text, executable->made_from.hash + executable->changed, executable->made_from.exclusive);
  if (name)
    executable->name = name;
  executable->nameless = false;
  if (executable->name)
    handle_map_put(&fikit_names, (uintptr_t)exec, (uintptr_t)executable->name, 0);
}

/* Under `changing`. Drops the name only: where a program changes many nodes, the next launch makes one name for all changes. */
static void becomes_another(CUgraphExec exec, struct executable *executable) {
  if (!executable->nameless)
    handle_map_erase(&fikit_names, (uintptr_t)exec);
  executable->nameless = true;
}

const struct fikit_name *fikit_graph_rename(uintptr_t handle) {
  if (!fikit_lock_around(&changing))
    return NULL;
  struct executable *executable = (void *)handle_map_get(&executables, handle);
  if (executable)
    name_it((CUgraphExec)handle, executable);
  const struct fikit_name *name = executable ? executable->name : NULL;
  fikit_unlock_around(&changing);
  return name;
}

static void drop_changes(struct executable *executable) {
  free(executable->changes);
  executable->changes = NULL;
  executable->places = executable->used = 0;
  executable->changed = 0;
}

bool fikit_graph_touches(CUgraphExec exec, const struct fikit_device *device, struct fikit_touch *touches, unsigned *found, unsigned most) {
  if (!fikit_lock_around(&changing))
    return false;
  const struct executable *executable = (void *)handle_map_get(&executables, (uintptr_t)exec);
  const bool known = executable && executable->memory;
  if (known)
    *found = fikit_graph_memory_touches(executable->memory, device, touches, *found, most);
  fikit_unlock_around(&changing);
  return known;
}

static void forget(struct executable *executable) {
  if (!executable)
    return;
  drop_changes(executable);
  fikit_graph_memory_free(executable->memory);
  free(executable);
}

static void instantiated(CUgraphExec exec, CUgraph graph, const struct fikit_graph_structure *structure) {
  struct executable *executable = calloc(1, sizeof *executable);
  if (!executable)
    return;
  executable->made_from = *structure;
  executable->memory = fikit_graph_memory_of(graph);
  if (handle_map_put(&executables, (uintptr_t)exec, (uintptr_t)executable, 0))
    name_it(exec, executable);
  else
    forget(executable);
}

/* A graph takes its memory at its first launch and keeps it for the next one. It is counted from here to the end of the executable. */
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
      instantiated(*exec, graph, &structure);                                                       \
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

/* Forget first: after the driver's call another thread may get the same handle. A third thread may still be looking at what a launch of it touched. */
CUresult cuGraphExecDestroy(CUgraphExec exec) {
  handle_map_erase(&fikit_names, (uintptr_t)exec);
  struct executable *executable = (void *)handle_map_take(&executables, (uintptr_t)exec);
  if (fikit_lock_around(&changing)) {
    forget(executable);
    fikit_unlock_around(&changing);
  }
  FIKIT_FREE(exec, REAL(cuGraphExecDestroy)(exec));
}

/* Its nodes may have other arguments, however much it is the same graph. */
static void touches_other_memory(CUgraphExec exec, CUgraph graph) {
  struct fikit_graph_memory *memory = fikit_graph_memory_of(graph);
  if (memory && fikit_lock_around(&changing)) {
    struct executable *executable = (void *)handle_map_get(&executables, (uintptr_t)exec);
    if (executable) {
      struct fikit_graph_memory *before = executable->memory;
      executable->memory = memory;
      memory = before;
    }
    fikit_unlock_around(&changing);
  }
  fikit_graph_memory_free(memory);
}

/* The executable takes over the nodes of `graph`, whose edges are the same: if all nodes are, too, the identity stays. */
static CUresult updated(CUresult result, CUgraphExec exec, CUgraph graph) {
  if (result != CUDA_SUCCESS)
    return result;
  if (fikit_extents_any())
    touches_other_memory(exec, graph);
  const uint64_t nodes_hash = fikit_graph_nodes_hash(graph);
  if (!fikit_lock_around(&changing))
    return result;
  struct executable *executable = (void *)handle_map_get(&executables, (uintptr_t)exec);
  bool same = executable && nodes_hash && executable->made_from.nodes_hash == nodes_hash;
  if (same) {
    if (executable->changed)
      becomes_another(exec, executable);
    drop_changes(executable);
  }
  fikit_unlock_around(&changing);
  if (same || !executable)
    return result;
  const struct fikit_graph_structure structure = fikit_graph_structure_of(graph);
  if (!fikit_lock_around(&changing))
    return result;
  executable = (void *)handle_map_get(&executables, (uintptr_t)exec);
  if (executable) {
    drop_changes(executable);
    executable->made_from = structure;
    becomes_another(exec, executable);
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

/* Under `changing`: the node's place, or a free one; NULL: there is no table. */
static struct change *place_of(const struct executable *executable, CUgraphNode node) {
  if (!executable->places)
    return NULL;
  for (size_t i = handle_hash((uintptr_t)node);; i++) {
    struct change *change = &executable->changes[i & (executable->places - 1)];
    if (!change->node || change->node == node)
      return change;
  }
}

static struct change *find(const struct executable *executable, CUgraphNode node) {
  struct change *change = place_of(executable, node);
  return change && change->node ? change : NULL;
}

static bool make_room(struct executable *executable) {
  enum { FIRST_PLACES = 16 };
  if (2 * (executable->used + 1) <= executable->places)
    return true;
  struct executable larger = {.places = executable->places ? 2 * executable->places : FIRST_PLACES};
  larger.changes = calloc(larger.places, sizeof *larger.changes);
  if (!larger.changes)
    return false;
  for (size_t i = 0; i < executable->places; i++)
    if (executable->changes[i].node)
      *place_of(&larger, executable->changes[i].node) = executable->changes[i];
  free(executable->changes);
  executable->changes = larger.changes;
  executable->places = larger.places;
  return true;
}

static struct change *remember(struct executable *executable, CUgraphNode node, uint64_t before) {
  if (!make_room(executable))
    return NULL;
  struct change *change = place_of(executable, node);
  *change = (struct change){node, before, before, false};
  executable->used++;
  return change;
}

/* The change's part of the identity; 0 when the node is what it was. */
static uint64_t weight(const struct change *change) {
  if (!change->off && change->now == change->before)
    return 0;
  return fikit_mix(fikit_mix(change->before, change->off), change->off ? 0 : change->now);
}

/* Under `changing`. */
static void change_to(CUgraphExec exec, struct executable *executable, struct change *change, uint64_t now, bool off) {
  const uint64_t changed = executable->changed - weight(change);
  change->now = now;
  change->off = off;
  if (changed + weight(change) == executable->changed)
    return;
  executable->changed = changed + weight(change);
  becomes_another(exec, executable);
}

/* The program changed a node: `now` is its new kernel, `off` whether it is switched off. `before`: the kernel in the graph; NULL: not asked
 * for, and then only a node that was changed before is noted. False: it was not. */
static bool note(CUgraphExec exec, CUgraphNode node, const uint64_t *before, const uint64_t *now, const bool *off) {
  if (!fikit_lock_around(&changing))
    return true;
  struct executable *executable = (void *)handle_map_get(&executables, (uintptr_t)exec);
  struct change *change = executable ? find(executable, node) : NULL;
  const bool known = change || !executable;
  if (!known && before && (now ? *now != *before : *off))
    change = remember(executable, node, *before);
  if (change)
    change_to(exec, executable, change, now ? *now : change->now, off ? *off : change->off);
  fikit_unlock_around(&changing);
  return known;
}

/* Under `changing`, which is then the caller's to unlock; NULL: it is not locked, and nothing is to be changed. */
static struct fikit_graph_memory *memory_of(CUgraphExec exec) {
  if (!fikit_lock_around(&changing))
    return NULL;
  struct executable *executable = (void *)handle_map_get(&executables, (uintptr_t)exec);
  if (executable && executable->memory)
    return executable->memory;
  fikit_unlock_around(&changing);
  return NULL;
}

static void copy_touches(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params) {
  struct fikit_graph_memory *memory = fikit_extents_any() ? memory_of(exec) : NULL;
  if (memory) {
    fikit_graph_memory_copy(memory, node, params);
    fikit_unlock_around(&changing);
  }
}

static void fill_touches(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params) {
  struct fikit_graph_memory *memory = fikit_extents_any() ? memory_of(exec) : NULL;
  if (memory) {
    fikit_graph_memory_fill(memory, node, params);
    fikit_unlock_around(&changing);
  }
}

static void kernel_touches(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
  struct fikit_graph_memory *memory = memory_of(exec);
  if (memory) {
    fikit_graph_memory_kernel(memory, node, params);
    fikit_unlock_around(&changing);
  }
}

/* Programs set new arguments for each launch: a node whose kernel stays what it was is not remembered. The driver is asked only for
 * what is not remembered. */
static void kernel_changed(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
  if (fikit_extents_any())
    kernel_touches(exec, node, params);
  const uint64_t now = fikit_kernel_node_hash(params);
  uint64_t before;
  if (!note(exec, node, NULL, &now, NULL) && fikit_kernel_node_hash_of(node, &before) && now != before)
    note(exec, node, &before, &now, NULL);
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
  else if (result == CUDA_SUCCESS && params->type == CU_GRAPH_NODE_TYPE_MEMCPY)
    copy_touches(exec, node, &params->copy.copy);
  else if (result == CUDA_SUCCESS && params->type == CU_GRAPH_NODE_TYPE_MEMSET)
    fill_touches(exec, node, &params->fill);
  return result;
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params, CUcontext context) {
  const CUresult result = REAL(cuGraphExecMemcpyNodeSetParams)(exec, node, params, context);
  if (result == CUDA_SUCCESS)
    copy_touches(exec, node, params);
  return result;
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context) {
  const CUresult result = REAL(cuGraphExecMemsetNodeSetParams)(exec, node, params, context);
  if (result == CUDA_SUCCESS)
    fill_touches(exec, node, params);
  return result;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  const CUresult result = REAL(cuGraphNodeSetEnabled)(exec, node, enabled);
  if (result != CUDA_SUCCESS)
    return result;
  uint64_t before = 0; /* of a copy or a fill */
  const bool off = !enabled;
  fikit_kernel_node_hash_of(node, &before);
  note(exec, node, &before, NULL, &off);
  struct fikit_graph_memory *memory = fikit_extents_any() ? memory_of(exec) : NULL;
  if (memory) {
    fikit_graph_memory_switch(memory, node, off);
    fikit_unlock_around(&changing);
  }
  return result;
}
