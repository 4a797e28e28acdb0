// The process-wide state behind NVML: which devices there are. What they do at the moment is read from their shared
// segments anew by every call, so a monitor survives `emuctl reset` and the death of every client.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "../device_model/segment.hpp"
#include "../libcuda/driver/config.hpp"
#include "../libcuda/driver/inventory.hpp"
#include "nvml_api.hpp"

namespace emu {

// Thrown inside api(); becomes the call's result.
struct NvmlFailure {
  nvmlReturn code;
};

inline void require(bool condition, nvmlReturn code) {
  if (!condition) throw NvmlFailure{code};
}

// A GPU, or a MIG instance of one.
struct MonitoredDevice {
  int index;      // of the GPU; of the instance on its GPU
  int gpu;        // which GPU it is, or is on
  bool instance;
  std::string name;
  std::string uuid;
  std::string bus_id;  // as NVML writes it, with a domain of eight digits
  uint64_t memory_bytes;
  std::vector<std::string> segments;  // where what it does is seen: a GPU's that is split are its instances'
};

class Library {
 public:
  // The devices that the driver would show with the same environment, without CUDA_VISIBLE_DEVICES: NVML ignores it.
  // Throws std::runtime_error with a sentence.
  Library();
  const Config& config() const { return config_; }
  const std::vector<MonitoredDevice>& devices() const { return devices_; }  // the GPUs
  const std::vector<MonitoredDevice>& instances() const { return instances_; }
  bool split() const { return !config_.mig.empty(); }
  // The devices are never forgotten: handles stay valid over shutdown and a new start, as with the real library.
  const MonitoredDevice& device(nvmlDevice handle) const;
  static nvmlDevice handle(const MonitoredDevice& device) { return reinterpret_cast<nvmlDevice>(&device); }

 private:
  Config config_;
  std::vector<MonitoredDevice> devices_;
  std::vector<MonitoredDevice> instances_;
};

// Numbers of MIG: NVML's own for "none", GPU instances from 1, one compute instance in each.
constexpr unsigned kNoInstance = 0xffffffff;
constexpr unsigned kComputeInstance = 0;
constexpr unsigned gpu_instance_id(unsigned instance) { return instance + 1; }

// The library between nvmlInit and the last nvmlShutdown; throws UNINITIALIZED outside.
const Library& library();
bool initialised() noexcept;
// One line on stderr, for people.
void say(const char* line) noexcept;

// Every entry point's body runs in here: nothing is thrown into the program.
template <typename Body>
nvmlReturn api(Body&& body) noexcept {
  try {
    body(library());
    return NVML_SUCCESS;
  } catch (const NvmlFailure& failure) {
    return failure.code;
  } catch (const std::exception& error) {
    say(error.what());
    return NVML_ERROR_UNKNOWN;
  }
}

// A query about one device: body(library, device).
template <typename Body>
nvmlReturn api(nvmlDevice handle, Body&& body) noexcept {
  return api([&](const Library& lib) { body(lib, lib.device(handle)); });
}

template <typename Value>
void give(Value* out, std::type_identity_t<Value> value) {
  require(out != nullptr, NVML_ERROR_INVALID_ARGUMENT);
  *out = value;
}
// Throws GPU_IS_LOST for a device that fell off the bus. What such a one was told by its maker is still known.
void require_present(const MonitoredDevice& device);
// Texts: too little room is an error, not a shorter text.
void give_text(char* out, unsigned size, const std::string& text);

}  // namespace emu
