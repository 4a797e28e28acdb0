#include "libcuda/memory/copy.hpp"

#include <cmath>
#include <cstring>

#include "libcuda/graph/capture.hpp"
#include "libcuda/memory/memory.hpp"
#include "libcuda/memory/virtual_memory.hpp"

namespace emu {
namespace {

char* pointer(CUdeviceptr address) { return reinterpret_cast<char*>(address); }

bool on_device(const void* address) {
  const auto found = driver().memory().find(reinterpret_cast<uintptr_t>(address));
  return found && found->kind != MemoryKind::host && found->kind != MemoryKind::registered;
}

Direction direction_of(const void* target, const void* source) {
  if (on_device(source)) return on_device(target) ? Direction::device_to_device : Direction::device_to_host;
  return on_device(target) ? Direction::host_to_device : Direction::host_to_host;
}

const char* side(CUmemorytype type, const void* host, CUdeviceptr device) {
  require(type != CU_MEMORYTYPE_ARRAY, CUDA_ERROR_NOT_SUPPORTED);
  const char* address = type == CU_MEMORYTYPE_HOST ? static_cast<const char*>(host) : pointer(device);
  require(address != nullptr, CUDA_ERROR_INVALID_VALUE);
  return address;
}

template <typename Descriptor>
CopyBox box_in_plane(const Descriptor& copy) {
  CopyBox box;
  box.width = copy.WidthInBytes;
  box.height = copy.Height;
  box.source_pitch = copy.srcPitch == 0 ? copy.WidthInBytes : copy.srcPitch;
  box.target_pitch = copy.dstPitch == 0 ? copy.WidthInBytes : copy.dstPitch;
  box.source = side(copy.srcMemoryType, copy.srcHost, copy.srcDevice) + copy.srcXInBytes + copy.srcY * box.source_pitch;
  box.target = const_cast<char*>(side(copy.dstMemoryType, copy.dstHost, copy.dstDevice)) + copy.dstXInBytes +
               copy.dstY * box.target_pitch;
  return box;
}

void run(const CopyBox& box) {
  for (size_t z = 0; z < box.depth; ++z) {
    for (size_t y = 0; y < box.height; ++y) {
      memmove(box.target + z * box.target_slice + y * box.target_pitch,
              box.source + z * box.source_slice + y * box.source_pitch, box.width);
    }
  }
}

size_t extent(const CopyBox& box, size_t pitch, size_t slice) {
  return (box.depth - 1) * slice + (box.height - 1) * pitch + box.width;
}

// A captured copy, as its node tells it.
CUDA_MEMCPY3D described(const CopyBox& box) {
  CUDA_MEMCPY3D copy{};
  const bool from_host = box.direction == Direction::host_to_device || box.direction == Direction::host_to_host;
  const bool to_host = box.direction == Direction::device_to_host || box.direction == Direction::host_to_host;
  copy.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  copy.dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  if (from_host) copy.srcHost = box.source;
  if (!from_host) copy.srcDevice = reinterpret_cast<CUdeviceptr>(box.source);
  if (to_host) copy.dstHost = box.target;
  if (!to_host) copy.dstDevice = reinterpret_cast<CUdeviceptr>(box.target);
  copy.srcPitch = box.source_pitch;
  copy.dstPitch = box.target_pitch;
  copy.srcHeight = box.source_pitch > 0 ? box.source_slice / box.source_pitch : 0;
  copy.dstHeight = box.target_pitch > 0 ? box.target_slice / box.target_pitch : 0;
  copy.WidthInBytes = box.width;
  copy.Height = box.height;
  copy.Depth = box.depth;
  return copy;
}

int64_t transfer_ns(size_t bytes, double gbps) {
  return std::llround(driver().config().copy_latency_us * 1e3 + static_cast<double>(bytes) / gbps);
}

// Pageable host memory makes an asynchronous copy synchronous: the driver may not keep using it after the call.
bool must_wait(const CopyBox& box) {
  if (box.direction == Direction::host_to_device) return !pinned(box.source, box.width);
  if (box.direction == Direction::device_to_host) return !pinned(box.target, box.width);
  return box.direction == Direction::host_to_host;
}

CUDA_MEMSET_NODE_PARAMS fill(CUdeviceptr target, size_t pitch, uint32_t value, unsigned element_bytes, size_t width,
                             size_t height) {
  return {target, pitch, value, element_bytes, width, height};
}

// Host memory and managed memory make the host wait; other targets do not, whichever call it is (CUDA manual, "API synchronization behavior").
bool waits_for(const CUDA_MEMSET_NODE_PARAMS& fill) {
  const auto found = driver().memory().find(fill.dst);
  return found && (found->kind == MemoryKind::host || found->kind == MemoryKind::registered || found->kind == MemoryKind::managed);
}

void submit_fill(Stream& stream, const CUDA_MEMSET_NODE_PARAMS& fill, bool synchronous) {
  if (synchronous) forbid_waiting(stream);
  if (stream.capture != nullptr) {
    record(stream, Work{fill, {fill_command(fill)}});
    return;
  }
  submit(stream, fill_command(fill));
  if (synchronous && waits_for(fill)) stream.context->session().wait(*stream.queue);
}

}  // namespace

void submit_copy(Stream& stream, const CopyBox& box, bool synchronous) {
  if (synchronous) forbid_waiting(stream);
  if (box.bytes() == 0) return;
  require(box.source != nullptr && box.target != nullptr, CUDA_ERROR_INVALID_VALUE);
  if (stream.capture != nullptr) {
    record(stream, Work{described(box), {copy_command(box)}});
    return;
  }
  submit(stream, copy_command(box));
  if (synchronous || must_wait(box)) stream.context->session().wait(*stream.queue);
}

CopyBox flat_box(Direction direction, void* target, const void* source, size_t bytes) {
  CopyBox box;
  box.source = static_cast<const char*>(source);
  box.target = static_cast<char*>(target);
  box.width = bytes;
  box.direction = direction;
  return box;
}

CopyBox box_of(const CUDA_MEMCPY2D& copy) {
  CopyBox box = box_in_plane(copy);
  box.direction = direction_of(box.target, box.source);
  return box;
}

namespace {

template <typename Descriptor>
CopyBox box_in_space(const Descriptor& copy) {
  CopyBox box = box_in_plane(copy);
  box.depth = copy.Depth;
  box.source_slice = box.source_pitch * (copy.srcHeight == 0 ? copy.Height : copy.srcHeight);
  box.target_slice = box.target_pitch * (copy.dstHeight == 0 ? copy.Height : copy.dstHeight);
  box.source += copy.srcZ * box.source_slice;
  box.target += copy.dstZ * box.target_slice;
  box.direction = direction_of(box.target, box.source);
  return box;
}

}  // namespace

CopyBox box_of(const CUDA_MEMCPY3D& copy) { return box_in_space(copy); }
CopyBox box_of(const CUDA_MEMCPY3D_PEER& copy) { return box_in_space(copy); }

Command copy_command(const CopyBox& box) {
  const Config& config = driver().config();
  if (box.bytes() > 0) {
    address_space().require_access(box.source, extent(box, box.source_pitch, box.source_slice), false);
    address_space().require_access(box.target, extent(box, box.target_pitch, box.target_slice), true);
  }
  Command command;
  switch (box.direction) {
    case Direction::host_to_device:
    case Direction::host_to_host:
      command.kind = OpKind::copy_in;
      command.duration_ns = transfer_ns(box.bytes(), config.h2d_gbps);
      break;
    case Direction::device_to_host:
      command.kind = OpKind::copy_out;
      command.duration_ns = transfer_ns(box.bytes(), config.d2h_gbps);
      break;
    case Direction::device_to_device:
      command.kind = OpKind::fill;
      command.duration_ns = transfer_ns(box.bytes(), config.d2d_gbps);
      command.footprint = footprint_of_bytes(box.bytes());
      break;
  }
  command.bytes = box.bytes();
  if (box.bytes() > 0) {
    command.memory = {{reinterpret_cast<uintptr_t>(box.source), extent(box, box.source_pitch, box.source_slice)},
                      {reinterpret_cast<uintptr_t>(box.target), extent(box, box.target_pitch, box.target_slice)}};
  }
  command.effect = [box](const Ran&) { run(box); };
  return command;
}

Command fill_command(const CUDA_MEMSET_NODE_PARAMS& fill) {
  const unsigned element = fill.elementSize;
  require(fill.dst != 0 && (element == 1 || element == 2 || element == 4) && fill.dst % element == 0,
          CUDA_ERROR_INVALID_VALUE);
  if (fill.height > 0)
    address_space().require_access(pointer(fill.dst), (fill.height - 1) * fill.pitch + fill.width * element, true);
  Command command;
  command.kind = OpKind::fill;
  command.bytes = fill.width * fill.height * element;
  command.duration_ns = transfer_ns(command.bytes, driver().config().d2d_gbps);
  command.footprint = footprint_of_bytes(command.bytes);
  if (command.bytes > 0) command.memory = {{fill.dst, (fill.height - 1) * fill.pitch + fill.width * element}};
  command.effect = [fill](const Ran&) {
    for (size_t y = 0; y < fill.height; ++y) {
      char* row = pointer(fill.dst) + y * fill.pitch;
      if (fill.elementSize == 1) {
        memset(row, static_cast<int>(fill.value & 0xff), fill.width);
        continue;
      }
      for (size_t x = 0; x < fill.width; ++x) memcpy(row + x * fill.elementSize, &fill.value, fill.elementSize);
    }
  };
  return command;
}

}  // namespace emu

using namespace emu;

CU_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr target, const void* source, size_t bytes) {
  return api([&] {
    submit_copy(resolve(nullptr), flat_box(Direction::host_to_device, pointer(target), source, bytes), true);
  });
}

CU_EXPORT CUresult cuMemcpyDtoH_v2(void* target, CUdeviceptr source, size_t bytes) {
  return api([&] {
    submit_copy(resolve(nullptr), flat_box(Direction::device_to_host, target, pointer(source), bytes), true);
  });
}

CU_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  return api([&] {
    submit_copy(resolve(nullptr), flat_box(Direction::device_to_device, pointer(target), pointer(source), bytes), true);
  });
}

CU_EXPORT CUresult cuMemcpy(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  return api([&] {
    Stream& stream = resolve(nullptr);
    submit_copy(stream,
                flat_box(direction_of(pointer(target), pointer(source)), pointer(target), pointer(source), bytes),
                true);
  });
}

CU_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void* source, size_t bytes, CUstream stream) {
  return api([&] {
    submit_copy(resolve(stream), flat_box(Direction::host_to_device, pointer(target), source, bytes), false);
  });
}

CU_EXPORT CUresult cuMemcpyDtoHAsync_v2(void* target, CUdeviceptr source, size_t bytes, CUstream stream) {
  return api([&] {
    submit_copy(resolve(stream), flat_box(Direction::device_to_host, target, pointer(source), bytes), false);
  });
}

CU_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  return api([&] {
    submit_copy(resolve(stream), flat_box(Direction::device_to_device, pointer(target), pointer(source), bytes), false);
  });
}

CU_EXPORT CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream handle) {
  return api([&] {
    Stream& stream = resolve(handle);
    submit_copy(stream,
                flat_box(direction_of(pointer(target), pointer(source)), pointer(target), pointer(source), bytes),
                false);
  });
}

CU_EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* copy) {
  return api([&] { submit_copy(resolve(nullptr), box_of(given(copy)), true); });
}

CU_EXPORT CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* copy) {
  return api([&] { submit_copy(resolve(nullptr), box_of(given(copy)), true); });
}

CU_EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return api([&] { submit_copy(resolve(stream), box_of(given(copy)), false); });
}

CU_EXPORT CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* copy) {
  return api([&] { submit_copy(resolve(nullptr), box_of(given(copy)), true); });
}

CU_EXPORT CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return api([&] { submit_copy(resolve(stream), box_of(given(copy)), false); });
}

CU_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr target, unsigned char value, size_t count) {
  return api([&] { submit_fill(resolve(nullptr), fill(target, 0, value, 1, count, 1), true); });
}

CU_EXPORT CUresult cuMemsetD16_v2(CUdeviceptr target, unsigned short value, size_t count) {
  return api([&] { submit_fill(resolve(nullptr), fill(target, 0, value, 2, count, 1), true); });
}

CU_EXPORT CUresult cuMemsetD32_v2(CUdeviceptr target, unsigned value, size_t count) {
  return api([&] { submit_fill(resolve(nullptr), fill(target, 0, value, 4, count, 1), true); });
}

CU_EXPORT CUresult cuMemsetD2D8_v2(CUdeviceptr target, size_t pitch, unsigned char value, size_t width, size_t height) {
  return api([&] { submit_fill(resolve(nullptr), fill(target, pitch, value, 1, width, height), true); });
}

CU_EXPORT CUresult cuMemsetD2D16_v2(CUdeviceptr target, size_t pitch, unsigned short value, size_t width,
                                    size_t height) {
  return api([&] { submit_fill(resolve(nullptr), fill(target, pitch, value, 2, width, height), true); });
}

CU_EXPORT CUresult cuMemsetD2D32_v2(CUdeviceptr target, size_t pitch, unsigned value, size_t width, size_t height) {
  return api([&] { submit_fill(resolve(nullptr), fill(target, pitch, value, 4, width, height), true); });
}

CU_EXPORT CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count, CUstream stream) {
  return api([&] { submit_fill(resolve(stream), fill(target, 0, value, 1, count, 1), false); });
}

CU_EXPORT CUresult cuMemsetD16Async(CUdeviceptr target, unsigned short value, size_t count, CUstream stream) {
  return api([&] { submit_fill(resolve(stream), fill(target, 0, value, 2, count, 1), false); });
}

CU_EXPORT CUresult cuMemsetD32Async(CUdeviceptr target, unsigned value, size_t count, CUstream stream) {
  return api([&] { submit_fill(resolve(stream), fill(target, 0, value, 4, count, 1), false); });
}

CU_EXPORT CUresult cuMemsetD2D8Async(CUdeviceptr target, size_t pitch, unsigned char value, size_t width, size_t height,
                                     CUstream stream) {
  return api([&] { submit_fill(resolve(stream), fill(target, pitch, value, 1, width, height), false); });
}

CU_EXPORT CUresult cuMemsetD2D16Async(CUdeviceptr target, size_t pitch, unsigned short value, size_t width,
                                      size_t height, CUstream stream) {
  return api([&] { submit_fill(resolve(stream), fill(target, pitch, value, 2, width, height), false); });
}

CU_EXPORT CUresult cuMemsetD2D32Async(CUdeviceptr target, size_t pitch, unsigned value, size_t width, size_t height,
                                      CUstream stream) {
  return api([&] { submit_fill(resolve(stream), fill(target, pitch, value, 4, width, height), false); });
}
