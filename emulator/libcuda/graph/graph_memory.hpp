// Memory that graphs allocate and free: the address belongs to the node, the device's bytes to whoever runs it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "libcuda/context/context.hpp"

namespace emu {

struct Graph;

// One allocation node's range. Its pages stay until the node, its executable copies and the users of the memory are gone.
class GraphMemory : public std::enable_shared_from_this<GraphMemory> {
 public:
  // Throws INVALID_VALUE for no bytes.
  GraphMemory(Context& context, uint64_t size, const Graph* owner);
  ~GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  // The range that begins at `pointer`, for a new free node of `graph`; throws INVALID_VALUE where none is allowed.
  static std::shared_ptr<GraphMemory> to_be_freed_by(CUdeviceptr pointer, const Graph* graph);

  const uint64_t reserved;  // of the device's capacity while it is allocated
  const uintptr_t base;
  const uint64_t bytes;
  Device& device;
  const uint64_t context;  // by id: it may go first
  const Graph* const owner;  // only compared, never followed
  int uses = 0;                  // allocations that were enqueued and whose frees are not done; they never overlap
  bool freed_by_owner = false;   // free nodes exist for it in its own graph,
  bool freed_by_others = false;  // or in others
};

// What one launch of a graph allocates and frees.
struct GraphMemoryUse {
  std::vector<std::shared_ptr<GraphMemory>> allocates, frees;
};
// Takes what a launch needs from the device, before anything is enqueued: all or nothing. Throws INVALID_VALUE when
// something is still allocated that it would allocate (unless auto_free) or not allocated that it would free, and
// OUT_OF_MEMORY.
void begin_launch(const GraphMemoryUse& use, bool auto_free, Stream& stream);
// A free node's work.
Command free_command(const std::shared_ptr<GraphMemory>& memory);

// For cuMemFree and cuMemFreeAsync: false when the address is no graph's. Throws INVALID_VALUE when it must not be freed.
bool free_graph_memory(CUdeviceptr pointer, Stream& stream);
// Gives back what a context's graphs have allocated, with the context.
void release_graph_memory(const Context& context);

}  // namespace emu
