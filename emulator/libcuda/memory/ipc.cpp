// Memory and events of one process in another (cuIpc*). A handle names a descriptor of the process that made it, which
// the kernel shows to other processes of the same user under /proc.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "libcuda/graph/capture.hpp"
#include "libcuda/stream/event.hpp"
#include "libcuda/memory/memory.hpp"
#include "libcuda/memory/memory_api.hpp"

using namespace emu;

namespace {

enum class Shared : uint64_t { memory = 0x454d5549'50434d31, event = 0x454d5549'50434531 };

struct Handle {
  Shared what;
  uint64_t id;
  int pid;
  int fd;
};

template <typename Driver>
void pack(Driver* out, Shared what, uint64_t id, int fd) {
  const Handle handle{what, id, getpid(), fd};
  memset(out, 0, sizeof *out);
  memcpy(out, &handle, sizeof handle);
}

template <typename Driver>
Handle unpack(const Driver& in, Shared what) {
  Handle handle{};
  memcpy(&handle, &in, sizeof handle);
  require(handle.what == what, CUDA_ERROR_INVALID_HANDLE);
  // A process has no need of its own handles, and no context that could open them.
  require(handle.pid != getpid(), CUDA_ERROR_INVALID_CONTEXT);
  return handle;
}

SharedBytes open_shared(const Handle& handle) {
  auto found = SharedBytes::open(handle.pid, handle.fd);
  require(found && found->id() == handle.id, CUDA_ERROR_MAP_FAILED);
  return std::move(*found);
}

bool same(const CUuuid& a, const CUuuid& b) { return memcmp(&a, &b, sizeof a) == 0; }

// Held while memory is shared or opened: two threads that ask for the same memory get one answer.
std::mutex g_sharing;

// Puts an allocation's bytes where another process can map them, at the same address. Only what is asked for pays.
void share_pages(const Allocation& memory) {
  SharedBytes shared = SharedBytes::create(memory.bytes, memory.context->device.uuid);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t bytes = page_bytes(memory.bytes);
  const std::string zeros(page, '\0');
  memory.context->session().pause([&] {
    auto* copy = static_cast<char*>(shared.map(bytes, PROT_READ | PROT_WRITE));
    const auto* original = reinterpret_cast<const char*>(memory.base);
    for (size_t at = 0; at < bytes; at += page) {
      if (memcmp(original + at, zeros.data(), page) != 0) memcpy(copy + at, original + at, page);
    }
    munmap(copy, bytes);
    shared.map(bytes, PROT_READ | PROT_WRITE, reinterpret_cast<void*>(memory.base));
  });
  driver().memory().change(memory.base, [&](Allocation& entry) {
    entry.shared_id = shared.id();
    entry.fd = shared.give_up();
  });
}

CUdeviceptr open_memory(const Handle& handle, Context& context) {
  MemoryTable& table = driver().memory();
  const auto known = table.find_if([&](const Allocation& entry) {
    return entry.kind == MemoryKind::imported && entry.context == &context && entry.shared_id == handle.id;
  });
  if (known && table.change(known->base, [](Allocation& entry) { ++entry.opens; })) return known->base;
  SharedBytes shared = open_shared(handle);
  Allocation made;
  for (int i = 0; i < driver().count(); ++i) {
    if (same(driver().device(i).uuid, shared.device())) made.device = &driver().device(i);
  }
  require(made.device != nullptr, CUDA_ERROR_MAP_FAILED);
  made.base = map_pages(shared.bytes());
  made.bytes = shared.bytes();
  made.kind = MemoryKind::imported;
  made.context = &context;
  made.shared_id = shared.id();
  made.opens = 1;
  try {
    shared.map(page_bytes(made.bytes), PROT_READ | PROT_WRITE, reinterpret_cast<void*>(made.base));
  } catch (const Failure&) {
    free_pages(made);
    throw;
  }
  table.insert(made);
  return made.base;
}

}  // namespace

CU_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr pointer) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    const auto find = [&] { return driver().memory().find(pointer); };
    const std::lock_guard lock(g_sharing);
    auto found = find();
    // Pools' memory is shared with its pool, mapped memory by its handle (CUDA manual).
    require(found && found->kind == MemoryKind::device && found->pool == nullptr, CUDA_ERROR_INVALID_VALUE);
    require_alive(found->context->health());
    if (found->fd < 0) {
      share_pages(*found);
      found = find();
    }
    pack(out, Shared::memory, found->shared_id, found->fd);
  });
}

CU_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
  return api([&] {
    Context& context = current();
    require(out != nullptr && flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, CUDA_ERROR_INVALID_VALUE);
    const Handle wanted = unpack(handle, Shared::memory);
    const std::lock_guard lock(g_sharing);
    *out = open_memory(wanted, context);
  });
}

CU_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  return api([&] {
    MemoryTable& table = driver().memory();
    const std::lock_guard lock(g_sharing);
    const auto found = table.find(pointer);
    require(found && found->base == pointer && found->kind == MemoryKind::imported, CUDA_ERROR_INVALID_VALUE);
    bool last = false;
    table.change(pointer, [&](Allocation& entry) { last = --entry.opens == 0; });
    if (!last) return;
    forbid_unsafe_call();
    found->context->synchronize();
    if (const auto taken = table.take(pointer)) free_pages(*taken);
  });
}

CU_EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle* out, CUevent handle) {
  return api([&] {
    driver();
    const auto& event = from_handle<Event>(handle);
    require(out != nullptr && event.interprocess(), CUDA_ERROR_INVALID_VALUE);
    pack(out, Shared::event, event.shared->id(), event.shared->fd());
  });
}

CU_EXPORT CUresult cuIpcOpenEventHandle(CUevent* out, CUipcEventHandle handle) {
  return api([&] {
    Context& context = current();
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    SharedBytes shared = open_shared(unpack(handle, Shared::event));
    require(same(shared.device(), context.device.uuid), CUDA_ERROR_INVALID_CONTEXT);
    auto event = std::make_unique<Event>(context, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
    event->state = shared_state(shared, false);
    event->shared.emplace(std::move(shared));
    *out = to_handle<CUevent>(event.release());
  });
}
