// Device and host memory: both are this process's own pages, so that programs can read back what was copied.
#pragma once

#include "context.hpp"

namespace emu {

struct Pool : Object {
  static constexpr ObjectKind kKind = ObjectKind::pool;
  explicit Pool(Device& d) : Object(kKind), device(d) {}
  Device& device;
  std::mutex mutex;
  uint64_t release_threshold = 0;
  uint64_t used = 0;
  uint64_t used_high = 0;
  int reuse[3] = {1, 1, 1};  // the three reuse policies: kept, without effect
};

Pool& default_pool(Device& device);

// Frees what the context still owns; its work is done.
void release_context_memory(Context* context);
// True when an asynchronous copy of this host address need not be waited for: memory from cuMemHostAlloc or registered.
bool pinned(const void* address, uint64_t bytes);

}  // namespace emu
