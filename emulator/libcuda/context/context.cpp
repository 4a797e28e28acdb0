#include "libcuda/context/context.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "libcuda/graph/capture.hpp"
#include "libcuda/memory/memory.hpp"

namespace emu {
namespace {

constexpr int kStackDepth = 64;

// Plain data: still there when the program's own thread-local destructors and atexit handlers call the driver.
struct ThreadState {
  Context* stack[kStackDepth];
  int depth;
  bool per_thread_default;
};
thread_local ThreadState t_state{};

std::atomic<uint64_t> g_next_id{1};

struct ThreadStream {
  uint64_t context_id;
  Context* context;
  Stream* stream;
};
using ThreadStreams = std::vector<ThreadStream>;

std::mutex g_live_mutex;
std::set<uint64_t>& live_contexts() {
  static auto* live = new std::set<uint64_t>;
  return *live;
}
bool is_live(uint64_t id) {
  const std::lock_guard lock(g_live_mutex);
  return live_contexts().contains(id);
}

// Gives an ended thread's default streams back.
void drop_thread_streams(void* value) {
  const std::unique_ptr<ThreadStreams> streams(static_cast<ThreadStreams*>(value));
  for (const ThreadStream& entry : *streams) {
    if (is_live(entry.context_id)) entry.context->destroy_stream(entry.stream);
  }
}

ThreadStreams& thread_streams() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    pthread_key_create(&made, drop_thread_streams);
    return made;
  }();
  auto* streams = static_cast<ThreadStreams*>(pthread_getspecific(key));
  if (streams == nullptr) {
    streams = new ThreadStreams;
    pthread_setspecific(key, streams);
  }
  return *streams;
}

}  // namespace

Context::Context(Device& d, unsigned f) : Object(kKind), device(d), flags(f), id(g_next_id++), session_(&d.session()) {
  require(session_->enter_context(), CUDA_ERROR_OUT_OF_MEMORY);
  try {
    legacy_ = create_stream(0, 0);
  } catch (const Failure&) {
    session_->leave_context();
    throw;
  }
  const std::lock_guard lock(g_live_mutex);
  live_contexts().insert(id);
}

Stream* Context::create_stream(unsigned stream_flags, int priority) {
  Stream* stream = make_stream(stream_flags, priority);
  hold_back(*stream);
  return stream;
}

Stream* Context::make_stream(unsigned stream_flags, int priority) {
  auto stream = std::make_unique<Stream>();
  stream->context = this;
  stream->flags = stream_flags;
  stream->priority = priority;
  stream->id = g_next_id++;
  stream->queue = session_->open_queue(legacy_ == nullptr ? nullptr : legacy_->queue,
                                       (stream_flags & CU_STREAM_NON_BLOCKING) == 0, priority, id, stream->id, health_);
  require(stream->queue != nullptr, CUDA_ERROR_OUT_OF_MEMORY);
  const std::lock_guard lock(mutex_);
  streams_.push_back(std::move(stream));
  return streams_.back().get();
}

void Context::destroy_stream(Stream* stream) {
  leave_capture(*stream);
  std::list<std::unique_ptr<Stream>> gone;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(streams_.begin(), streams_.end(), [stream](const auto& entry) { return entry.get() == stream; });
    if (found != streams_.end()) gone.splice(gone.begin(), streams_, found);
  }
  session_->close_queue(stream->queue);
}

Stream& Context::per_thread() {
  ThreadStreams& streams = thread_streams();
  for (const ThreadStream& entry : streams) {
    if (entry.context_id == id) return *entry.stream;
  }
  streams.push_back({id, this, create_stream(0, 0)});
  return *streams.back().stream;
}

std::vector<Stream*> Context::streams() {
  const std::lock_guard lock(mutex_);
  std::vector<Stream*> all;
  for (auto& stream : streams_) all.push_back(stream.get());
  return all;
}

void Context::synchronize() {
  std::vector<uint64_t> ids;  // another thread may destroy any of them meanwhile
  {
    const std::lock_guard lock(mutex_);
    for (const auto& stream : streams_)
      if (stream->capture == nullptr) ids.push_back(stream->id);
  }
  for (const uint64_t stream : ids) session_->wait_for_stream(stream, health_);
}

void destroy_context(Context* context) {
  context->session().abandon(context->id, context->health());
  {
    const std::lock_guard lock(g_live_mutex);
    live_contexts().erase(context->id);
  }
  for (int i = 0; i < t_state.depth; ++i) {
    if (t_state.stack[i] == context) t_state.stack[i] = nullptr;
  }
  for (Stream* stream : context->streams()) {
    if (stream != context->legacy_) context->destroy_stream(stream);
  }
  context->destroy_stream(context->legacy_);
  release_context_memory(context);
  context->session().leave_context();
  delete context;
}

void synchronize_current() {
  Context* context = current_or_null();
  if (context != nullptr && context->kind == ObjectKind::context) context->synchronize();
}

Context* current_or_null() {
  driver();
  return t_state.depth > 0 ? t_state.stack[t_state.depth - 1] : nullptr;
}

Context& current() {
  Context* context = current_or_null();
  // Another thread may have destroyed what this thread still has as current: the handle's first word tells.
  require(context != nullptr && context->kind == ObjectKind::context, CUDA_ERROR_INVALID_CONTEXT);
  require_alive(context->health());
  return *context;
}

Stream& resolve(CUstream handle) {
  if (handle == nullptr) handle = t_state.per_thread_default ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  if (handle == CU_STREAM_LEGACY) return current().legacy();
  if (handle == CU_STREAM_PER_THREAD) return current().per_thread();
  driver();
  auto& stream = from_handle<Stream>(handle);
  require_alive(stream.context->health());
  return stream;
}

PerThreadDefault::PerThreadDefault() : before_(t_state.per_thread_default) { t_state.per_thread_default = true; }
PerThreadDefault::~PerThreadDefault() { t_state.per_thread_default = before_; }

void submit(Stream& stream, Command command) {
  forbid_capture(stream);
  stream.context->session().enqueue(*stream.queue, std::move(command));
}

}  // namespace emu

using namespace emu;

CU_EXPORT CUresult cuCtxCreate_v2(CUcontext* out, unsigned flags, CUdevice device) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto* context = new Context(driver().device(device), flags);
    require(t_state.depth < kStackDepth, CUDA_ERROR_OUT_OF_MEMORY);
    t_state.stack[t_state.depth++] = context;
    *out = to_handle<CUcontext>(context);
  });
}

// Execution affinity (v3) and creation parameters (v4) name properties that the emulated device has not: only "none" is
// accepted.
CU_EXPORT CUresult cuCtxCreate_v3(CUcontext* out, void*, int count, unsigned flags, CUdevice device) {
  return count == 0 ? cuCtxCreate_v2(out, flags, device) : CUDA_ERROR_NOT_SUPPORTED;
}

CU_EXPORT CUresult cuCtxCreate_v4(CUcontext* out, void*, unsigned flags, CUdevice device) {
  return cuCtxCreate_v2(out, flags, device);
}

CU_EXPORT CUresult cuCtxDestroy_v2(CUcontext handle) {
  return api([&] {
    driver();
    auto& context = from_handle<Context>(handle, CUDA_ERROR_INVALID_CONTEXT);
    require(!context.primary, CUDA_ERROR_INVALID_CONTEXT);
    if (t_state.depth > 0 && t_state.stack[t_state.depth - 1] == &context) --t_state.depth;
    destroy_context(&context);
  });
}

CU_EXPORT CUresult cuCtxAttach(CUcontext* out, unsigned flags) {
  return api([&] {
    require(out != nullptr && flags == 0, CUDA_ERROR_INVALID_VALUE);
    Context& context = current();
    ++context.attached;
    *out = to_handle<CUcontext>(&context);
  });
}

CU_EXPORT CUresult cuCtxDetach(CUcontext handle) {
  bool last = false;
  const CUresult result = api([&] {
    driver();
    auto& context = from_handle<Context>(handle, CUDA_ERROR_INVALID_CONTEXT);
    require(!context.primary, CUDA_ERROR_INVALID_CONTEXT);
    last = --context.attached <= 0;
  });
  return last ? cuCtxDestroy_v2(handle) : result;
}

CU_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  return api([&] {
    driver();
    auto& context = from_handle<Context>(handle, CUDA_ERROR_INVALID_CONTEXT);
    require(t_state.depth < kStackDepth, CUDA_ERROR_OUT_OF_MEMORY);
    t_state.stack[t_state.depth++] = &context;
  });
}

CU_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext* out) {
  return api([&] {
    driver();
    require(t_state.depth > 0, CUDA_ERROR_INVALID_CONTEXT);
    Context* context = t_state.stack[--t_state.depth];
    if (out != nullptr) *out = to_handle<CUcontext>(context);
  });
}

CU_EXPORT CUresult cuCtxSetCurrent(CUcontext handle) {
  return api([&] {
    driver();
    Context* context = handle == nullptr ? nullptr : &from_handle<Context>(handle, CUDA_ERROR_INVALID_CONTEXT);
    if (context == nullptr) {
      t_state.depth -= t_state.depth > 0 ? 1 : 0;
    } else {
      if (t_state.depth == 0) t_state.depth = 1;
      t_state.stack[t_state.depth - 1] = context;
    }
  });
}

CU_EXPORT CUresult cuCtxGetCurrent(CUcontext* out) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = to_handle<CUcontext>(current_or_null());
  });
}

CU_EXPORT CUresult cuCtxGetDevice(CUdevice* out) {
  return api([&] { given(out) = current().device.ordinal; });
}

CU_EXPORT CUresult cuCtxGetDevice_v2(CUdevice* out, CUcontext handle) {
  return api([&] {
    given(out) = (handle == nullptr ? current() : from_handle<Context>(handle, CUDA_ERROR_INVALID_CONTEXT)).device.ordinal;
  });
}

CU_EXPORT CUresult cuCtxGetFlags(unsigned* out) {
  return api([&] { given(out) = current().flags; });
}

CU_EXPORT CUresult cuCtxGetId(CUcontext handle, unsigned long long* out) {
  return api(
      [&] { given(out) = (handle == nullptr ? current() : from_handle<Context>(handle, CUDA_ERROR_INVALID_CONTEXT)).id; });
}

CU_EXPORT CUresult cuCtxGetApiVersion(CUcontext handle, unsigned* out) {
  return api([&] {
    if (handle != nullptr) from_handle<Context>(handle, CUDA_ERROR_INVALID_CONTEXT);
    given(out) = 3020;
  });
}

CU_EXPORT CUresult cuCtxSynchronize() {
  return api([&] {
    Context& context = current();
    forbid_capture(context);
    forbid_unsafe_call();
    context.synchronize();
    settle_pools(context.device);
  });
}

CU_EXPORT CUresult cuCtxSynchronize_v2(CUcontext handle) {
  return api([&] {
    Context& context = handle == nullptr ? current() : from_handle<Context>(handle, CUDA_ERROR_INVALID_CONTEXT);
    require_alive(context.health());
    forbid_capture(context);
    forbid_unsafe_call();
    context.synchronize();
    settle_pools(context.device);
  });
}

CU_EXPORT CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return api([&] {
    current();
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
  });
}

// Limits and cache preferences change nothing here; the calls exist so that programs which tune them run.
CU_EXPORT CUresult cuCtxGetLimit(size_t* value, int limit) {
  return api([&] {
    current();
    given(value) = limit == 0 ? 1024 : size_t{8} << 20;  // 0 = stack size; others: printf FIFO and heap sizes
  });
}

CU_EXPORT CUresult cuCtxSetLimit(int, size_t) {
  return api([&] { current(); });
}

CU_EXPORT CUresult cuCtxSetCacheConfig(int) {
  return api([&] { current(); });
}

CU_EXPORT CUresult cuCtxGetCacheConfig(int* out) {
  return api([&] {
    current();
    given(out) = 0;
  });
}
