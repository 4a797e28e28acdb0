// Copies and fills as commands: how long they take, and what they do to memory when they complete.
#pragma once

#include "libcuda/context/context.hpp"
#include "libcuda/memory/memory_api.hpp"

namespace emu {

enum class Direction { host_to_device, device_to_host, device_to_device, host_to_host };

// A box of bytes, rows and slices on both sides.
struct CopyBox {
  const char* source = nullptr;
  char* target = nullptr;
  size_t width = 0, height = 1, depth = 1;
  size_t source_pitch = 0, source_slice = 0;
  size_t target_pitch = 0, target_slice = 0;
  Direction direction = Direction::device_to_device;

  size_t bytes() const { return width * height * depth; }
};

// From the driver's descriptors; throws INVALID_VALUE for null sides and NOT_SUPPORTED for arrays.
CopyBox box_of(const CUDA_MEMCPY2D& copy);
CopyBox box_of(const CUDA_MEMCPY3D& copy);
CopyBox box_of(const CUDA_MEMCPY3D_PEER& copy);
CopyBox flat_box(Direction direction, void* target, const void* source, size_t bytes);

Command copy_command(const CopyBox& box);
// Waits for the copy when it is synchronous, or when its host memory may go away after the call.
void submit_copy(Stream& stream, const CopyBox& box, bool synchronous);
// Fills height rows of width elements of elementSize (1, 2 or 4) bytes.
Command fill_command(const CUDA_MEMSET_NODE_PARAMS& fill);

}  // namespace emu
