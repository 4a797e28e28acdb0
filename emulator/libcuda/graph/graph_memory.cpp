#include "libcuda/graph/graph_memory.hpp"

#include <algorithm>
#include <map>

#include "libcuda/graph/capture.hpp"
#include "libcuda/memory/memory.hpp"

namespace emu {
namespace {

// Bytes of one device: associated with graphs, and kept for them until they are trimmed.
struct Account {
  uint64_t used = 0, used_high = 0;
  uint64_t reserved = 0, reserved_high = 0;
};

// Taken after no other lock is needed: effects run with a session's lock held, and they end up here.
std::mutex g_mutex;
struct Tables {
  std::map<const Device*, Account> accounts;
  std::map<uintptr_t, GraphMemory*> known;
  std::map<uintptr_t, std::shared_ptr<GraphMemory>> live;  // allocated: outlives the graph that did it
};
Tables& tables() {
  static auto* all = new Tables;
  return *all;
}

constexpr uint64_t kGranularity = 512;

uint64_t claimed_bytes(uint64_t bytes) {
  require(bytes > 0, CUDA_ERROR_INVALID_VALUE);
  require(bytes <= uint64_t{1} << 46, CUDA_ERROR_OUT_OF_MEMORY);
  return (bytes + kGranularity - 1) / kGranularity * kGranularity;
}

// The range that begins at the address, or null. The caller holds the lock.
std::shared_ptr<GraphMemory> find_live(CUdeviceptr pointer) {
  const auto found = tables().live.find(pointer);
  return found == tables().live.end() ? nullptr : found->second;
}

}  // namespace

GraphMemory::GraphMemory(Context& c, uint64_t size, const Graph* graph)
    : reserved(claimed_bytes(size)), base(map_pages(size)), bytes(size), device(c.device), context(c.id), owner(graph) {
  driver().memory().insert({base, bytes, 0, MemoryKind::graph, &c, nullptr, 0});
  const std::lock_guard lock(g_mutex);
  tables().known[base] = this;
}

GraphMemory::~GraphMemory() {
  {
    const std::lock_guard lock(g_mutex);
    tables().known.erase(base);
  }
  driver().memory().take(base);
  unmap_pages(base, bytes);
}

std::shared_ptr<GraphMemory> GraphMemory::to_be_freed_by(CUdeviceptr pointer, const Graph* graph) {
  const std::lock_guard lock(g_mutex);
  const auto found = tables().known.find(pointer);
  require(found != tables().known.end(), CUDA_ERROR_INVALID_VALUE);
  GraphMemory& memory = *found->second;
  // Once in the owning graph, or else in others (CUDA manual, cuGraphAddMemAllocNode).
  const bool own = memory.owner == graph;
  require(!memory.freed_by_owner && !(own && memory.freed_by_others), CUDA_ERROR_INVALID_VALUE);
  auto held = memory.weak_from_this().lock();
  require(held != nullptr, CUDA_ERROR_INVALID_VALUE);
  (own ? memory.freed_by_owner : memory.freed_by_others) = true;
  return held;
}

Command free_command(const std::shared_ptr<GraphMemory>& memory) {
  return Command{.effect = [memory](const Ran&) {
                   const std::lock_guard lock(g_mutex);
                   if (--memory->uses == 0) tables().accounts[&memory->device].used -= memory->reserved;
                 },
                 .frees = true};
}

bool free_graph_memory(CUdeviceptr pointer, Stream& stream) {
  std::shared_ptr<GraphMemory> memory;
  {
    const std::lock_guard lock(g_mutex);
    if (!tables().known.contains(pointer)) return false;
    memory = find_live(pointer);
    require(memory != nullptr && !memory->freed_by_owner, CUDA_ERROR_INVALID_VALUE);
    tables().live.erase(pointer);
  }
  submit(stream, free_command(memory));
  return true;
}

void begin_launch(const GraphMemoryUse& use, bool auto_free, Stream& stream) {
  if (use.allocates.empty() && use.frees.empty()) return;
  const auto allocates = [&](const auto& memory) {
    return std::find(use.allocates.begin(), use.allocates.end(), memory) != use.allocates.end();
  };
  uint64_t wanted = 0;
  uint64_t missing = 0;
  std::vector<std::shared_ptr<GraphMemory>> freed;  // a last reference must not go under the lock
  {
    const std::lock_guard lock(g_mutex);
    auto& live = tables().live;
    for (const auto& memory : use.allocates) {
      const bool kept = live.contains(memory->base);
      require(!kept || auto_free, CUDA_ERROR_INVALID_VALUE);
      // Freed and allocated again: the same bytes, because launches wait for each other.
      if (!kept && memory->uses == 0) wanted += memory->reserved;
    }
    for (const auto& memory : use.frees)
      require(allocates(memory) || live.contains(memory->base), CUDA_ERROR_INVALID_VALUE);
    Account& account = tables().accounts[&stream.context->device];
    account.used += wanted;
    missing = account.used > account.reserved ? account.used - account.reserved : 0;
    account.reserved += missing;
  }
  if (missing > 0 && !stream.context->session().reserve(missing)) {
    const std::lock_guard lock(g_mutex);
    Account& account = tables().accounts[&stream.context->device];
    account.used -= wanted;
    account.reserved -= missing;
    throw Failure{CUDA_ERROR_OUT_OF_MEMORY};
  }
  const std::lock_guard lock(g_mutex);
  Account& account = tables().accounts[&stream.context->device];
  account.used_high = std::max(account.used_high, account.used);
  account.reserved_high = std::max(account.reserved_high, account.reserved);
  for (const auto& memory : use.allocates) {
    if (tables().live.emplace(memory->base, memory).second) ++memory->uses;
  }
  for (const auto& memory : use.frees) {
    freed.push_back(memory);
    tables().live.erase(memory->base);
  }
}

namespace {

// Gives back what graphs keep for their next launch.
void trim(Device& device) {
  uint64_t idle = 0;
  {
    const std::lock_guard lock(g_mutex);
    Account& account = tables().accounts[&device];
    idle = account.reserved - account.used;
    account.reserved = account.used;
  }
  if (idle > 0) device.session().release(idle);
}

}  // namespace

void release_graph_memory(const Context& context) {
  std::vector<std::shared_ptr<GraphMemory>> freed;
  {
    const std::lock_guard lock(g_mutex);
    for (const auto& [base, memory] : tables().live) {
      if (memory->context == context.id) freed.push_back(memory);
    }
    for (const auto& memory : freed) {
      tables().live.erase(memory->base);
      if (--memory->uses == 0) tables().accounts[&memory->device].used -= memory->reserved;
    }
  }
  trim(context.device);
}

}  // namespace emu

using namespace emu;

namespace {

// Numbers of CUgraphMem_attribute.
enum GraphMemoryAttribute { kUsedCurrent, kUsedHigh, kReservedCurrent, kReservedHigh };

}  // namespace

CU_EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice ordinal, int attribute, void* value) {
  return api([&] {
    Device& device = driver().device(ordinal);
    require(value != nullptr && attribute >= kUsedCurrent && attribute <= kReservedHigh, CUDA_ERROR_INVALID_VALUE);
    const std::lock_guard lock(g_mutex);
    const Account& account = tables().accounts[&device];
    const uint64_t values[] = {account.used, account.used_high, account.reserved, account.reserved_high};
    *static_cast<uint64_t*>(value) = values[attribute];
  });
}

// Only the high-water marks, and only back to now: by the value 0.
CU_EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice ordinal, int attribute, void* value) {
  return api([&] {
    Device& device = driver().device(ordinal);
    require(value != nullptr && (attribute == kUsedHigh || attribute == kReservedHigh) &&
                *static_cast<const uint64_t*>(value) == 0,
            CUDA_ERROR_INVALID_VALUE);
    const std::lock_guard lock(g_mutex);
    Account& account = tables().accounts[&device];
    if (attribute == kUsedHigh) account.used_high = account.used;
    if (attribute == kReservedHigh) account.reserved_high = account.reserved;
  });
}

CU_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice ordinal) {
  return api([&] { trim(driver().device(ordinal)); });
}
