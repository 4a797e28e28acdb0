// What a block, a grid and a multiprocessor of the emulated device hold. The device's attributes, the launch's checks
// and the occupancy calls all speak of these; none is a claim about hardware.
#pragma once

#include <cstdint>

namespace emu::limits {

inline constexpr int kWarp = 32;
inline constexpr int kThreadsPerBlock = 1024;
inline constexpr unsigned kBlock[3] = {1024, 1024, 64};
inline constexpr unsigned kGrid[3] = {2147483647, 65535, 65535};
inline constexpr int kSharedPerBlock = 49152;         // without asking
inline constexpr int kSharedPerBlockOptIn = 232448;   // with CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
inline constexpr int kReservedSharedPerBlock = 1024;  // of the multiprocessor's, for the system
inline constexpr int kSharedUnit = 128;
inline constexpr int kSharedPerMultiprocessor = 233472;
inline constexpr int kMostRegistersPerThread = 255;
inline constexpr int kRegisterUnit = 8;  // a thread's registers are given out in
inline constexpr int kRegistersPerMultiprocessor = 65536;
inline constexpr int kThreadsPerMultiprocessor = 2048;
inline constexpr int kBlocksPerMultiprocessor = 32;
inline constexpr int kMultiprocessors = 132;
inline constexpr int kBlocksPerCluster = 8;  // that every device with clusters has; 16 for functions that allow it

constexpr int allocated_registers(int of_a_thread) {
  return (of_a_thread + kRegisterUnit - 1) / kRegisterUnit * kRegisterUnit;
}

}  // namespace emu::limits
