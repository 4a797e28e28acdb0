// What a graph remembers of a kernel launch, for programs that read a node's parameters back, change and reuse them.
#pragma once

#include <array>
#include <vector>

#include "libcuda/driver/driver_api.hpp"

namespace emu {

struct Context;

struct Grid {
  unsigned grid[3];
  unsigned block[3];
};

// Holds the arguments' bytes itself: the caller's die after the call that gave them.
class KernelLaunch {
 public:
  // function: a CUfunction or CUkernel. Arguments whose sizes the image does not say are not kept.
  KernelLaunch(const void* function, const Grid& grid, unsigned shared_bytes, void** parameters, void** extra);
  KernelLaunch(const KernelLaunch&) = delete;
  KernelLaunch& operator=(const KernelLaunch&) = delete;

  // Of its function; null for a library's.
  const Context* context() const;

  bool cooperative = false;  // launched so: all its blocks wait for each other

  // In the driver's form; its pointers are valid as long as this object.
  void describe(CUDA_KERNEL_NODE_PARAMS_v1& out);
  void describe(CUDA_KERNEL_NODE_PARAMS_v2& out);

 private:
  void describe_shape(CUDA_KERNEL_NODE_PARAMS_v1& out);

  const void* function_;
  Grid grid_;
  unsigned shared_bytes_;
  std::vector<char> bytes_;
  size_t packed_bytes_ = 0;          // > 0: bytes_ is the packed form
  std::vector<void*> parameters_;    // pointers into bytes_ otherwise
  std::array<void*, 5> extra_ = {};  // (key, value) pairs up to a null key
};

}  // namespace emu
