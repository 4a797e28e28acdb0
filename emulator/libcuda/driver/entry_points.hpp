// The generated table of all entry points (generate.py) and what is said about those that do nothing.
#pragma once

#include <cstddef>

#include "libcuda/driver/driver_api.hpp"

namespace emu {

// What cuDriverGetVersion says; cuGetProcAddress knows no name that is newer.
inline constexpr int kDriverVersion = 13000;

struct EntryPoint {
  const char* name;  // as cuGetProcAddress is asked, without suffixes
  int version;       // first CUDA version of this form, 1000 * major + 10 * minor
  bool per_thread;   // the form whose null stream is the per-thread default stream
  void* address;
};

// Sorted by name, then per_thread, then version.
extern const EntryPoint kEntryPoints[];
extern const size_t kEntryPointCount;

// NOT_SUPPORTED, and one line on stderr per function and process.
CUresult unsupported(const char* name, bool& said) noexcept;

}  // namespace emu
