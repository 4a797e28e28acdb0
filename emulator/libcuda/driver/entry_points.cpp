#include "libcuda/driver/entry_points.hpp"

#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "libcuda/driver/call_log.hpp"
#include "libcuda/driver/driver.hpp"

namespace emu {

CUresult unsupported(const char* name, bool& said) noexcept {
  const CUresult injected = api_anywhere([] {}, name);
  if (injected != CUDA_SUCCESS) return injected;
  if (!said) log_call((std::string(name) + " is not emulated").c_str());
  if (!said)
    fprintf(stderr, "emucuda: %s is not part of the emulated GPU, the program gets CUDA_ERROR_NOT_SUPPORTED (801)\n",
            name);
  said = true;
  return CUDA_ERROR_NOT_SUPPORTED;
}

namespace {

enum SymbolStatus { kFound = 0, kNotFound = 1, kVersionNotSufficient = 2 };

struct Lookup {
  void* address = nullptr;
  SymbolStatus status = kNotFound;
};

// The newest form that is not newer than asked for. Names without a per-thread form answer with their only one.
Lookup look_up(const char* name, int version, bool per_thread) {
  Lookup best;
  bool best_per_thread = false;
  size_t low = 0;
  for (size_t high = kEntryPointCount; low < high;) {
    const size_t middle = (low + high) / 2;
    if (strcmp(kEntryPoints[middle].name, name) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (; low < kEntryPointCount && strcmp(kEntryPoints[low].name, name) == 0; ++low) {
    const EntryPoint& entry = kEntryPoints[low];
    if (entry.version > kDriverVersion) continue;
    if (best.address == nullptr) best.status = kVersionNotSufficient;
    if (entry.version > version || (entry.per_thread && !per_thread)) continue;
    if (best_per_thread && !entry.per_thread) continue;
    best = {entry.address, kFound};
    best_per_thread = entry.per_thread;
  }
  return best;
}

}  // namespace
}  // namespace emu

using namespace emu;

CU_EXPORT CUresult cuGetProcAddress_v2(const char* name, void** out, int version, uint64_t flags, int* status) {
  return api_anywhere([&] {
    require(name != nullptr && out != nullptr, CUDA_ERROR_INVALID_VALUE);
    const Lookup found = look_up(name, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
    *out = found.address;
    if (status != nullptr) *status = found.status;
    if (found.address == nullptr) log_missing(name, version);
    require(found.address != nullptr, CUDA_ERROR_NOT_FOUND);
  });
}

CU_EXPORT CUresult cuGetProcAddress(const char* name, void** out, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, out, version, flags, nullptr);
}

// Private tables of NVIDIA's own libraries. The emulator neither has nor imitates them (architecture D12).
CU_EXPORT CUresult cuGetExportTable(const void** out, const CUuuid*) {
  static bool said = false;
  return api_anywhere([&] {
    if (out != nullptr) *out = nullptr;
    if (!std::exchange(said, true)) {
      say("emucuda: cuGetExportTable is refused: the emulated GPU has none of NVIDIA's private interfaces, so programs that "
          "use the CUDA runtime (cudart) do not run on it; driver API programs do");
    }
    return CUDA_ERROR_NOT_FOUND;
  });
}
