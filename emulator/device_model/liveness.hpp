// Is the process behind a slot still the one that took it?
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace emu {

// Start time of a process in clock ticks since boot (field 22 of /proc/PID/stat), 0 when it is gone or a zombie.
uint64_t process_start(pid_t pid);

inline bool alive(pid_t pid, uint64_t start) { return process_start(pid) == start; }

}  // namespace emu
