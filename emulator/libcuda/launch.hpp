// From a launch call's arguments to a command.
#pragma once

#include "module.hpp"
#include "test_kernels.hpp"

namespace emu {

struct Grid {
  unsigned grid[3];
  unsigned block[3];
};

// Throws INVALID_VALUE for empty grids, unusable blocks and missing parameters of kernels that read theirs.
Command kernel_command(const void* function_or_kernel, const Grid& grid, void** parameters, void** extra);

}  // namespace emu
