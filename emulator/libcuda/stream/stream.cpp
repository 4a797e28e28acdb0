// Streams: creation, queries, host functions.
#include "libcuda/graph/capture.hpp"
#include "libcuda/memory/memory.hpp"

using namespace emu;

namespace {

void create(CUstream* out, unsigned flags, int priority) {
  require(out != nullptr && (flags & ~CU_STREAM_NON_BLOCKING) == 0, CUDA_ERROR_INVALID_VALUE);
  *out = to_handle<CUstream>(current().create_stream(flags, priority < -5 ? -5 : priority > 0 ? 0 : priority));
}

}  // namespace

CU_EXPORT CUresult cuStreamCreate(CUstream* out, unsigned flags) {
  return api([&] { create(out, flags, 0); });
}

CU_EXPORT CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  return api([&] { create(out, flags, priority); });
}

CU_EXPORT CUresult cuStreamDestroy_v2(CUstream handle) {
  return api([&] {
    driver();
    auto& stream = from_handle<Stream>(handle);
    stream.context->destroy_stream(&stream);
  });
}

CU_EXPORT CUresult cuStreamSynchronize(CUstream handle) {
  return api([&] {
    Stream& stream = resolve(handle);
    forbid_waiting(stream);
    // Work in the legacy stream orders itself after all blocking streams, but an empty one must not hide theirs.
    if (&stream == &stream.context->legacy()) submit(stream, Command{});
    stream.context->session().wait(*stream.queue);
    settle_pools(stream.context->device);
  });
}

CU_EXPORT CUresult cuStreamQuery(CUstream handle) {
  return api([&] {
    Stream& stream = resolve(handle);
    forbid_waiting(stream);
    const bool idle = stream.context->session().idle(*stream.queue);
    require_alive(stream.context->health());
    return idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CU_EXPORT CUresult cuStreamGetFlags(CUstream handle, unsigned* out) {
  return api([&] { given(out) = resolve(handle).flags; });
}

CU_EXPORT CUresult cuStreamGetPriority(CUstream handle, int* out) {
  return api([&] { given(out) = resolve(handle).priority; });
}

CU_EXPORT CUresult cuStreamGetId(CUstream handle, unsigned long long* out) {
  return api([&] { given(out) = resolve(handle).id; });
}

CU_EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext* out) {
  return api([&] { given(out) = to_handle<CUcontext>(resolve(handle).context); });
}

CU_EXPORT CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext* context, void** green) {
  return api([&] {
    given(context) = to_handle<CUcontext>(resolve(handle).context);
    if (green != nullptr) *green = nullptr;
  });
}

CU_EXPORT CUresult cuStreamGetDevice(CUstream handle, CUdevice* out) {
  return api([&] { given(out) = resolve(handle).context->device.ordinal; });
}

CU_EXPORT CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  return api([&] {
    Stream& stream = resolve(handle);
    const CUDA_HOST_NODE_PARAMS host{function, data};
    if (stream.capture != nullptr) {
      record(stream, work_of(host));
    } else {
      submit(stream, command_of(host));
    }
  });
}

CU_EXPORT CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* data, unsigned flags) {
  return api([&] {
    require(callback != nullptr && flags == 0, CUDA_ERROR_INVALID_VALUE);
    Stream& stream = resolve(handle);
    forbid_capture(stream);
    submit(stream, Command{.kind = OpKind::host, .host_function = [=](CUresult status) { callback(handle, status, data); }});
  });
}
