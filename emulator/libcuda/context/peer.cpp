// Several devices: who may use whose memory, and copies between them. Every emulated device reaches every other one.
#include "libcuda/memory/copy.hpp"

using namespace emu;

namespace {

// Numbers of CUdevice_P2PAttribute; the rest, atomic operations and arrays over the link, is not there.
enum LinkAttribute { kFirst = 1, kAccess = 2, kLast = 5 };

Context& context_of(CUcontext handle) { return from_handle<Context>(handle, CUDA_ERROR_INVALID_CONTEXT); }

bool can_access(const Device& device, const Device& peer) { return &device != &peer; }

void require_contexts(CUcontext target, CUcontext source) {
  require_alive(context_of(target).health());
  require_alive(context_of(source).health());
}

CopyBox peer_box(CUdeviceptr target, CUcontext target_context, CUdeviceptr source, CUcontext source_context,
                 size_t bytes) {
  require_contexts(target_context, source_context);
  return flat_box(Direction::device_to_device, reinterpret_cast<void*>(target), reinterpret_cast<void*>(source), bytes);
}

CopyBox peer_box(const CUDA_MEMCPY3D_PEER* copy) {
  require(copy != nullptr, CUDA_ERROR_INVALID_VALUE);
  const bool from_device = copy->srcMemoryType == CU_MEMORYTYPE_DEVICE;
  const bool to_device = copy->dstMemoryType == CU_MEMORYTYPE_DEVICE;
  if (from_device) context_of(copy->srcContext);
  if (to_device) context_of(copy->dstContext);
  return box_of(*copy);
}

}  // namespace

CU_EXPORT CUresult cuDeviceCanAccessPeer(int* out, CUdevice ordinal, CUdevice peer) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = can_access(driver().device(ordinal), driver().device(peer)) ? 1 : 0;
  });
}

CU_EXPORT CUresult cuDeviceGetP2PAttribute(int* out, int attribute, CUdevice source, CUdevice target) {
  return api([&] {
    const bool distinct = can_access(driver().device(source), driver().device(target));
    require(distinct, CUDA_ERROR_INVALID_DEVICE);
    require(out != nullptr && attribute >= kFirst && attribute <= kLast, CUDA_ERROR_INVALID_VALUE);
    *out = attribute == kAccess ? 1 : 0;
  });
}

CU_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned flags) {
  return api([&] {
    Context& context = current();
    const Context& peer = context_of(handle);
    require(flags == 0, CUDA_ERROR_INVALID_VALUE);
    require(can_access(context.device, peer.device), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    const std::lock_guard lock(context.peers_mutex);
    require(context.peers.insert(peer.id).second, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  });
}

CU_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext handle) {
  return api([&] {
    Context& context = current();
    const Context& peer = context_of(handle);
    const std::lock_guard lock(context.peers_mutex);
    require(context.peers.erase(peer.id) == 1, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  });
}

CU_EXPORT CUresult cuMemcpyPeer(CUdeviceptr target, CUcontext target_context, CUdeviceptr source,
                                CUcontext source_context, size_t bytes) {
  return api([&] {
    submit_copy(resolve(nullptr), peer_box(target, target_context, source, source_context, bytes), true);
  });
}

CU_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr target, CUcontext target_context, CUdeviceptr source,
                                     CUcontext source_context, size_t bytes, CUstream stream) {
  return api([&] {
    submit_copy(resolve(stream), peer_box(target, target_context, source, source_context, bytes), false);
  });
}

CU_EXPORT CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* copy) {
  return api([&] { submit_copy(resolve(nullptr), peer_box(copy), true); });
}

CU_EXPORT CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* copy, CUstream stream) {
  return api([&] { submit_copy(resolve(stream), peer_box(copy), false); });
}
