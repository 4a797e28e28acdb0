/*
 * Each node has a stretch of one list of ranges: addresses, as the program gave them, which are looked up when a launch is looked at, because memory may
 * have come and gone since. A node that gets more of them than it had moves to the end of the list.
 */
#include "identity/graph_memory.h"
#include "identity/arguments.h"
#include "identity/graph_structure.h"
#include "base/symbols.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 16384, MOST_RANGES = 4096, DEEPEST = 8, FIRST_ROOM = 64 };

struct node {
  CUgraphNode handle;
  unsigned first, count, room; /* in the list */
  bool off;
};

struct fikit_graph_memory {
  struct node *nodes; /* by handle, once all are there */
  struct fikit_range *ranges;
  unsigned node_count, node_room, range_count, range_room;
  bool sorted;
};

/* Room for so many elements; false: memory is short, or there are too many, and all is as before. */
static bool make_room(void **elements, unsigned *room, size_t wanted, size_t most, size_t size) {
  if (wanted <= *room)
    return true;
  size_t more = *room ? *room : FIRST_ROOM;
  while (more < wanted)
    more *= 2;
  void *larger = wanted <= most ? realloc(*elements, more * size) : NULL;
  if (!larger)
    return false;
  *elements = larger;
  *room = (unsigned)more;
  return true;
}

static int by_handle(const void *a, const void *b) {
  const uintptr_t one = (uintptr_t)((const struct node *)a)->handle, two = (uintptr_t)((const struct node *)b)->handle;
  return (one > two) - (one < two);
}

static struct node *find(struct fikit_graph_memory *memory, CUgraphNode handle) {
  const struct node wanted = {.handle = handle};
  return memory->sorted && memory->node_count ? bsearch(&wanted, memory->nodes, memory->node_count, sizeof wanted, by_handle) : NULL;
}

static struct node *one_more(struct fikit_graph_memory *memory, CUgraphNode handle) {
  if (!make_room((void **)&memory->nodes, &memory->node_room, (size_t)memory->node_count + 1, MOST_NODES, sizeof *memory->nodes))
    return NULL;
  unsigned at = memory->node_count++;
  for (; memory->sorted && at > 0 && (uintptr_t)memory->nodes[at - 1].handle > (uintptr_t)handle; at--)
    memory->nodes[at] = memory->nodes[at - 1];
  memory->nodes[at] = (struct node){.handle = handle};
  return &memory->nodes[at];
}

static void set(struct fikit_graph_memory *memory, CUgraphNode handle, const struct fikit_range *ranges, unsigned count) {
  struct node *node = find(memory, handle);
  if (!node && (count == 0 || !(node = one_more(memory, handle))))
    return;
  if (count > node->room) {
    node->count = node->room = 0;
    if (!make_room((void **)&memory->ranges, &memory->range_room, (size_t)memory->range_count + count, MOST_RANGES, sizeof *memory->ranges))
      return;
    node->first = memory->range_count;
    node->room = count;
    memory->range_count += count;
  }
  if (count)
    memcpy(&memory->ranges[node->first], ranges, count * sizeof *ranges);
  node->count = count;
}

void fikit_graph_memory_kernel(struct fikit_graph_memory *memory, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
  const uintptr_t function = params->func ? (uintptr_t)params->func : (uintptr_t)params->kern;
  uint64_t words[FIKIT_ARGUMENT_WORDS];
  struct fikit_range ranges[FIKIT_TOUCHES];
  unsigned count = 0, kept = 0;
  if (!memory)
    return;
  if (fikit_argument_words(&(struct fikit_arguments){function, params->kernelParams, params->extra}, words, &count))
    count = fikit_extents_known(words, count);
  else
    count = 0;
  for (; kept < count && kept < FIKIT_TOUCHES; kept++)
    ranges[kept] = (struct fikit_range){words[kept], 0};
  set(memory, node, ranges, kept);
}

void fikit_graph_memory_copy(struct fikit_graph_memory *memory, CUgraphNode node, const CUDA_MEMCPY3D *params) {
  struct fikit_range ranges[2];
  if (memory)
    set(memory, node, ranges, fikit_ranges_of_copy(params, ranges));
}

void fikit_graph_memory_fill(struct fikit_graph_memory *memory, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params) {
  const struct fikit_box box = {.pitch = params->pitch, .width = params->width * params->element, .height = params->height, .depth = 1};
  const struct fikit_range range = fikit_range_of(params->to, &box);
  if (memory)
    set(memory, node, &range, 1);
}

void fikit_graph_memory_switch(struct fikit_graph_memory *memory, CUgraphNode handle, bool off) {
  struct node *node = memory ? find(memory, handle) : NULL;
  if (node)
    node->off = off;
}

static void collect(struct fikit_graph_memory *memory, CUgraph graph, int depth);

static void look_at(struct fikit_graph_memory *memory, CUgraphNode node, int depth) {
  CUDA_KERNEL_NODE_PARAMS kernel;
  CUDA_MEMCPY3D copy = {{0}, {0}, 0, 0, 0};
  CUDA_MEMSET_NODE_PARAMS fill = {0, 0, 0, 0, 0, 0};
  CUgraph child;
  int type = -1;
  REAL(cuGraphNodeGetType)(node, &type);
  if (type == CU_GRAPH_NODE_TYPE_KERNEL && fikit_kernel_node_params(node, &kernel))
    fikit_graph_memory_kernel(memory, node, &kernel);
  else if (type == CU_GRAPH_NODE_TYPE_MEMCPY && REAL(cuGraphMemcpyNodeGetParams)(node, &copy) == CUDA_SUCCESS)
    fikit_graph_memory_copy(memory, node, &copy);
  else if (type == CU_GRAPH_NODE_TYPE_MEMSET && REAL(cuGraphMemsetNodeGetParams)(node, &fill) == CUDA_SUCCESS)
    fikit_graph_memory_fill(memory, node, &fill);
  else if (type == CU_GRAPH_NODE_TYPE_GRAPH && REAL(cuGraphChildGraphNodeGetGraph)(node, &child) == CUDA_SUCCESS)
    collect(memory, child, depth + 1);
}

static void collect(struct fikit_graph_memory *memory, CUgraph graph, int depth) {
  size_t count = 0;
  CUgraphNode *nodes = NULL;
  if (depth < DEEPEST && REAL(cuGraphGetNodes)(graph, NULL, &count) == CUDA_SUCCESS && count <= MOST_NODES)
    nodes = calloc(count + 1, sizeof(void *));
  if (nodes && REAL(cuGraphGetNodes)(graph, nodes, &count) == CUDA_SUCCESS)
    for (size_t i = 0; i < count; i++)
      look_at(memory, nodes[i], depth);
  free(nodes);
}

struct fikit_graph_memory *fikit_graph_memory_of(CUgraph graph) {
  struct fikit_graph_memory *memory = fikit_extents_any() ? calloc(1, sizeof *memory) : NULL;
  if (!memory)
    return NULL;
  collect(memory, graph, 0);
  if (memory->node_count)
    qsort(memory->nodes, memory->node_count, sizeof *memory->nodes, by_handle);
  memory->sorted = true;
  return memory;
}

void fikit_graph_memory_free(struct fikit_graph_memory *memory) {
  if (!memory)
    return;
  free(memory->nodes);
  free(memory->ranges);
  free(memory);
}

unsigned fikit_graph_memory_touches(const struct fikit_graph_memory *memory, const struct fikit_device *device, struct fikit_touch *touches,
                                    unsigned found, unsigned most) {
  struct fikit_touch *all = malloc((memory->range_count + 1) * sizeof *all);
  unsigned count = 0;
  for (unsigned i = 0; all && i < memory->node_count; i++) {
    const struct node *node = &memory->nodes[i];
    if (!node->off && node->count)
      count += fikit_extents_of_ranges(device, &memory->ranges[node->first], node->count, &all[count], 0, node->count);
  }
  if (all)
    count = fikit_places_merge(all, count, most - found);
  if (count)
    memcpy(&touches[found], all, count * sizeof *all);
  free(all);
  return found + count;
}
