// A thread inside somebody else's program: takes none of its signals, keeps nothing alive.
#pragma once

#include <functional>

namespace emu {

void start_quiet_thread(std::function<void()> body);
// True on a thread that runs the program's host functions: driver calls are not permitted there (CUDA manual,
// cuLaunchHostFunc).
bool in_host_function();

}  // namespace emu
