// How many blocks of a kernel fit onto the device at once.
#pragma once

#include "libcuda/module/module.hpp"

namespace emu {

// Per multiprocessor; 0 when not even one fits. Throws INVALID_VALUE for an empty block.
int active_blocks(const Function& function, int block_threads, size_t dynamic_shared);

}  // namespace emu
