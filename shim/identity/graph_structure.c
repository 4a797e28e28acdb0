/*
 * A node's hash covers what it does and, in any order, the hashes of the nodes before it; the graph's hash covers all nodes. So it depends neither
 * on the order in which the graph was built nor on handles.
 */
#include "identity/graph_structure.h"
#include "identity/identity.h"
#include "base/symbols.h"

#include <stdlib.h>

enum { MOST_NODES = 16384, MOST_EDGES = 1 << 18, DEEPEST = 8 }; /* a larger graph is identified by its number of nodes */

struct node {
  CUgraphNode handle;
  uint64_t hash;    /* of what it does; after the visit, of the nodes before it too */
  uint64_t before;  /* sum of the hashes of the nodes right before it */
  size_t waits_for; /* how many of these are not visited yet */
  size_t first_edge, edges;
  uint64_t allocates; /* bytes */
  CUdeviceptr pointer; /* that it allocates or frees */
  bool frees;
};

struct edge {
  CUgraphNode from, to;
  uint64_t data; /* for which part of `from` the edge waits */
};

struct walk {
  struct node *nodes; /* as the driver lists them */
  struct node **by_handle;
  struct edge *edges; /* by `from` */
  size_t count, edge_count;
};

static const struct fikit_name *name_of(const CUDA_KERNEL_NODE_PARAMS *params) {
  const uintptr_t handle = params->func ? (uintptr_t)params->func : (uintptr_t)params->kern;
  return (const void *)handle_map_get(&fikit_names, handle);
}

uint64_t fikit_kernel_node_hash(const CUDA_KERNEL_NODE_PARAMS *params) {
  const struct fikit_name *name = name_of(params);
  uint64_t hash = fikit_mix(name ? name->key : 0, params->gridDimX | (uint64_t)params->gridDimY << 32);
  hash = fikit_mix(hash, params->gridDimZ | (uint64_t)params->blockDimX << 32);
  hash = fikit_mix(hash, params->blockDimY | (uint64_t)params->blockDimZ << 32);
  return fikit_mix(hash, params->sharedMemBytes);
}

bool fikit_kernel_node_params(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params) {
  params->kern = NULL; /* version 1 does not write it */
  CUresult result = REAL(cuGraphKernelNodeGetParams_v2)(node, params);
  if (result == CUDA_ERROR_NOT_FOUND) /* a driver without version 2 */
    result = REAL(cuGraphKernelNodeGetParams)(node, params);
  return result == CUDA_SUCCESS;
}

bool fikit_kernel_node_hash_of(CUgraphNode node, uint64_t *hash) {
  CUDA_KERNEL_NODE_PARAMS params;
  if (!fikit_kernel_node_params(node, &params))
    return false;
  *hash = fikit_kernel_node_hash(&params);
  return true;
}

static bool exclusive(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
  const struct fikit_name *name = name_of(params);
  CUlaunchAttribute attribute = {0};
  return (name && name->exclusive) ||
         (REAL(cuGraphKernelNodeGetAttribute)(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &attribute.value) == CUDA_SUCCESS &&
          attribute.value.cooperative);
}

static struct fikit_graph_structure structure_of(CUgraph graph, int depth);

static void look_at_memory(struct node *node, int type, struct fikit_graph_structure *structure) {
  CUDA_MEM_ALLOC_NODE_PARAMS alloc = {0};
  if (type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
    node->frees = REAL(cuGraphMemFreeNodeGetParams)(node->handle, &node->pointer) == CUDA_SUCCESS;
  } else if (REAL(cuGraphMemAllocNodeGetParams)(node->handle, &alloc) == CUDA_SUCCESS) {
    node->allocates = alloc.bytes;
    node->pointer = alloc.pointer;
    if (alloc.pool.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
      structure->memory_device = fikit_device_of(alloc.pool.location.id);
  }
}

static uint64_t copy_hash(int type, const CUDA_MEMCPY3D *copy) {
  return fikit_mix(fikit_mix(fikit_mix((uint64_t)(unsigned)type, copy->width), copy->height), copy->depth);
}

static uint64_t fill_hash(int type, const CUDA_MEMSET_NODE_PARAMS *fill) {
  return fikit_mix(fikit_mix(fikit_mix((uint64_t)(unsigned)type, fill->width), fill->height), fill->element);
}

static void look_at(struct node *node, struct fikit_graph_structure *structure, int depth) {
  CUDA_KERNEL_NODE_PARAMS kernel;
  CUDA_MEMCPY3D copy = {{0}, {0}, 0, 0, 0};
  CUDA_MEMSET_NODE_PARAMS fill = {0, 0, 0, 0, 0, 0};
  CUgraph child;
  int type = -1;
  REAL(cuGraphNodeGetType)(node->handle, &type);
  node->hash = (uint64_t)(unsigned)type;
  if (type == CU_GRAPH_NODE_TYPE_KERNEL && fikit_kernel_node_params(node->handle, &kernel)) {
    const bool alone = exclusive(node->handle, &kernel);
    node->hash = fikit_mix(fikit_kernel_node_hash(&kernel), alone);
    structure->exclusive = structure->exclusive || alone;
  } else if (type == CU_GRAPH_NODE_TYPE_MEMCPY && REAL(cuGraphMemcpyNodeGetParams)(node->handle, &copy) == CUDA_SUCCESS) {
    node->hash = copy_hash(type, &copy);
  } else if (type == CU_GRAPH_NODE_TYPE_MEMSET && REAL(cuGraphMemsetNodeGetParams)(node->handle, &fill) == CUDA_SUCCESS) {
    node->hash = fill_hash(type, &fill);
  } else if (type == CU_GRAPH_NODE_TYPE_GRAPH && depth < DEEPEST &&
             REAL(cuGraphChildGraphNodeGetGraph)(node->handle, &child) == CUDA_SUCCESS) {
    const struct fikit_graph_structure inner = structure_of(child, depth + 1);
    node->hash = fikit_mix(node->hash, inner.hash);
    structure->nodes += inner.nodes;
    structure->exclusive = structure->exclusive || inner.exclusive;
  } else if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
    look_at_memory(node, type, structure);
    node->hash = fikit_mix(node->hash, node->allocates);
  }
}

static int compare_handles(const void *a, const void *b) {
  const uintptr_t one = (uintptr_t)(*(struct node *const *)a)->handle, two = (uintptr_t)(*(struct node *const *)b)->handle;
  return (one > two) - (one < two);
}

static struct node *find(const struct walk *walk, CUgraphNode handle) {
  struct node wanted = {.handle = handle}, *key = &wanted;
  struct node **found = bsearch(&key, walk->by_handle, walk->count, sizeof(void *), compare_handles);
  return found ? *found : NULL;
}

static int compare_edges(const void *a, const void *b) {
  const uintptr_t one = (uintptr_t)((const struct edge *)a)->from, two = (uintptr_t)((const struct edge *)b)->from;
  return (one > two) - (one < two);
}

static bool read_nodes(struct walk *walk, CUgraph graph) {
  CUgraphNode *handles = calloc(walk->count + 1, sizeof(void *));
  walk->nodes = calloc(walk->count + 1, sizeof *walk->nodes);
  walk->by_handle = calloc(walk->count + 1, sizeof(void *));
  bool done = handles && walk->nodes && walk->by_handle &&
              REAL(cuGraphGetNodes)(graph, handles, &walk->count) == CUDA_SUCCESS;
  for (size_t i = 0; done && i < walk->count; i++) {
    walk->nodes[i].handle = handles[i];
    walk->by_handle[i] = &walk->nodes[i];
  }
  if (done)
    qsort(walk->by_handle, walk->count, sizeof(void *), compare_handles);
  free(handles);
  return done;
}

/* Version 1 of the call refuses graphs whose edges carry data. */
static CUresult get_edges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, uint64_t *data, size_t *count) {
  return HAS(cuGraphGetEdges_v2) ? REAL(cuGraphGetEdges_v2)(graph, from, to, data, count)
                                 : REAL(cuGraphGetEdges)(graph, from, to, count);
}

static bool read_edges(struct walk *walk, CUgraph graph) {
  if (get_edges(graph, NULL, NULL, NULL, &walk->edge_count) != CUDA_SUCCESS || walk->edge_count > MOST_EDGES)
    return false;
  const size_t count = walk->edge_count;
  CUgraphNode *from = calloc(count + 1, sizeof(void *)), *to = calloc(count + 1, sizeof(void *));
  uint64_t *data = calloc(count + 1, sizeof *data);
  walk->edges = calloc(count + 1, sizeof *walk->edges);
  bool done = from && to && data && walk->edges && get_edges(graph, from, to, data, &walk->edge_count) == CUDA_SUCCESS;
  for (size_t i = 0; done && i < walk->edge_count; i++)
    walk->edges[i] = (struct edge){from[i], to[i], data[i]};
  free(from);
  free(to);
  free(data);
  if (!done)
    return false;
  qsort(walk->edges, walk->edge_count, sizeof *walk->edges, compare_edges);
  for (size_t i = 0; i < walk->edge_count; i++) {
    struct node *source = find(walk, walk->edges[i].from), *target = find(walk, walk->edges[i].to);
    if (!source || !target)
      return false;
    if (source->edges++ == 0)
      source->first_edge = i;
    target->waits_for++;
  }
  return true;
}

struct memory {
  uint64_t held, most;
};

static void account(struct memory *memory, const struct walk *walk, const struct node *node) {
  memory->held += node->allocates;
  if (memory->held > memory->most)
    memory->most = memory->held;
  for (size_t i = 0; node->frees && i < walk->count; i++)
    if (walk->nodes[i].allocates && walk->nodes[i].pointer == node->pointer) {
      memory->held -= walk->nodes[i].allocates < memory->held ? walk->nodes[i].allocates : memory->held;
      return;
    }
}

/* Visits each node after all nodes before it. */
static bool go_down(struct walk *walk, struct fikit_graph_structure *structure) {
  struct node **order = calloc(walk->count + 1, sizeof(void *));
  struct memory memory = {0, 0};
  size_t ready = 0, done = 0;
  if (!order)
    return false;
  for (size_t i = 0; i < walk->count; i++)
    if (walk->nodes[i].waits_for == 0)
      order[ready++] = &walk->nodes[i];
  for (; done < ready; done++) {
    struct node *node = order[done];
    node->hash = fikit_mix(node->hash, node->before);
    structure->hash += fikit_mix(node->hash, 1);
    account(&memory, walk, node);
    for (size_t i = 0; i < node->edges; i++) {
      const struct edge *edge = &walk->edges[node->first_edge + i];
      struct node *next = find(walk, edge->to);
      next->before += fikit_mix(node->hash, edge->data);
      if (--next->waits_for == 0)
        order[ready++] = next;
    }
  }
  free(order);
  structure->memory_bytes = memory.most;
  return done == walk->count;
}

static struct fikit_graph_structure structure_of(CUgraph graph, int depth) {
  struct fikit_graph_structure structure = {0};
  struct walk walk = {0};
  if (REAL(cuGraphGetNodes)(graph, NULL, &walk.count) != CUDA_SUCCESS)
    return structure;
  structure.nodes = walk.count;
  bool whole = walk.count <= MOST_NODES && read_nodes(&walk, graph) && read_edges(&walk, graph);
  for (size_t i = 0; whole && i < walk.count; i++)
    look_at(&walk.nodes[i], &structure, depth);
  if (!whole || !go_down(&walk, &structure))
    structure.hash = 0;
  structure.hash = fikit_mix(structure.hash, structure.nodes);
  free(walk.nodes);
  free(walk.by_handle);
  free(walk.edges);
  return structure;
}

static uint64_t nodes_hash(CUgraph graph, int depth);

/* What the node does, whatever stands before it; 0: the driver does not tell. */
static uint64_t own_hash(CUgraphNode node, int depth) {
  CUDA_KERNEL_NODE_PARAMS kernel;
  CUDA_MEMCPY3D copy = {{0}, {0}, 0, 0, 0};
  CUDA_MEMSET_NODE_PARAMS fill = {0, 0, 0, 0, 0, 0};
  CUgraph child;
  int type = -1;
  if (REAL(cuGraphNodeGetType)(node, &type) != CUDA_SUCCESS)
    return 0;
  switch (type) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
    return fikit_kernel_node_params(node, &kernel) ? fikit_kernel_node_hash(&kernel) | 1 : 0;
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    return REAL(cuGraphMemcpyNodeGetParams)(node, &copy) == CUDA_SUCCESS ? copy_hash(type, &copy) | 1 : 0;
  case CU_GRAPH_NODE_TYPE_MEMSET:
    return REAL(cuGraphMemsetNodeGetParams)(node, &fill) == CUDA_SUCCESS ? fill_hash(type, &fill) | 1 : 0;
  case CU_GRAPH_NODE_TYPE_GRAPH:
    return REAL(cuGraphChildGraphNodeGetGraph)(node, &child) == CUDA_SUCCESS ? nodes_hash(child, depth + 1) : 0;
  default:
    return fikit_mix((uint64_t)(unsigned)type, 1) | 1;
  }
}

struct fikit_graph_structure fikit_graph_structure_of(CUgraph graph) {
  struct fikit_graph_structure structure = structure_of(graph, 0);
  structure.nodes_hash = fikit_graph_nodes_hash(graph);
  return structure;
}

static uint64_t nodes_hash(CUgraph graph, int depth) {
  size_t count = 0;
  CUgraphNode *nodes = NULL;
  if (depth < DEEPEST && REAL(cuGraphGetNodes)(graph, NULL, &count) == CUDA_SUCCESS && count <= MOST_NODES)
    nodes = calloc(count + 1, sizeof(void *));
  uint64_t hash = nodes && REAL(cuGraphGetNodes)(graph, nodes, &count) == CUDA_SUCCESS ? fikit_mix(1, count) | 1 : 0;
  for (size_t i = 0; hash && i < count; i++) {
    const uint64_t own = own_hash(nodes[i], depth);
    hash = own ? fikit_mix(hash, own) | 1 : 0;
  }
  free(nodes);
  return hash;
}

uint64_t fikit_graph_nodes_hash(CUgraph graph) {
  return nodes_hash(graph, 0);
}
