// From a launch call's arguments to a command.
#pragma once

#include "libcuda/graph/kernel_node.hpp"
#include "libcuda/module/module.hpp"
#include "libcuda/module/test_kernels.hpp"

namespace emu {

// Throws INVALID_VALUE for empty grids, unusable blocks and missing parameters of kernels that read theirs.
// The two forms of parameters are those of cuLaunchKernel.
Command kernel_command(const void* function_or_kernel, const Grid& grid, unsigned shared_bytes, void** parameters,
                       void** extra);

// Throws INVALID_VALUE when a block asks for more dynamic shared memory than the function allows (its attribute
// MAX_DYNAMIC_SHARED_SIZE_BYTES).
void require_shared(const void* function_or_kernel, unsigned dynamic_bytes);

// Lazy loading: what the first launch of a function does before it is one. `waits`: for the work of this context.
void load_now(Function& function, Context* waits);

}  // namespace emu
