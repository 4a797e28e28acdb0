#include "library.hpp"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>

namespace emu {
namespace {

std::mutex g_mutex;
int g_users = 0;  // guarded by g_mutex
// Never destroyed: programs shut NVML down from atexit handlers.
std::atomic<const Library*> g_made{nullptr};
std::atomic<bool> g_initialised{false};

nvmlReturn start() noexcept {
  const std::lock_guard lock(g_mutex);
  if (g_made.load() == nullptr) {
    try {
      g_made.store(std::make_unique<const Library>().release());
    } catch (const std::exception& error) {
      say(error.what());
      return NVML_ERROR_DRIVER_NOT_LOADED;
    }
  }
  ++g_users;
  g_initialised.store(true);
  return NVML_SUCCESS;
}

nvmlReturn stop() noexcept {
  const std::lock_guard lock(g_mutex);
  if (g_users == 0) return NVML_ERROR_UNINITIALIZED;
  if (--g_users == 0) g_initialised.store(false);
  return NVML_SUCCESS;
}

}  // namespace

Library::Library() : config_(load_config(config_path())) {
  const std::string set = set_name();
  for (int i = 0; i < config_.count; ++i) {
    char bus_id[32];
    snprintf(bus_id, sizeof bus_id, "00000000:%02X:00.0", static_cast<unsigned>(i + 1));
    devices_.push_back({i, i, false, config_.name, split() ? split_gpu_uuid(config_, set, i) : "", bus_id,
                        config_.memory_bytes, {}});
  }
  for (const InventoryEntry& entry : inventory(config_, set)) {
    MonitoredDevice& gpu = devices_[static_cast<size_t>(entry.gpu)];
    gpu.segments.push_back(entry.segment);
    if (entry.instance == kWhole) {
      gpu.uuid = entry.uuid_text;
    } else {
      instances_.push_back({entry.instance, entry.gpu, true, entry.name, entry.uuid_text, gpu.bus_id, entry.memory_bytes,
                            {entry.segment}});
    }
  }
}

const MonitoredDevice& Library::device(nvmlDevice handle) const {
  for (const auto* all : {&devices_, &instances_}) {
    for (const MonitoredDevice& device : *all) {
      if (Library::handle(device) == handle) return device;
    }
  }
  throw NvmlFailure{NVML_ERROR_INVALID_ARGUMENT};
}

const Library& library() {
  require(initialised(), NVML_ERROR_UNINITIALIZED);
  return *g_made.load();
}

bool initialised() noexcept { return g_initialised.load(); }

void say(const char* line) noexcept {
  // Monitors ask every second and may own the whole terminal: once is enough.
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) fprintf(stderr, "%s\n", line);
}

void give_text(char* out, unsigned size, const std::string& text) {
  require(out != nullptr, NVML_ERROR_INVALID_ARGUMENT);
  require(text.size() < size, NVML_ERROR_INSUFFICIENT_SIZE);
  memcpy(out, text.c_str(), text.size() + 1);
}

}  // namespace emu

NVML_EXPORT nvmlReturn nvmlInitWithFlags(unsigned) { return emu::start(); }
NVML_EXPORT nvmlReturn nvmlInit_v2() { return emu::start(); }
NVML_EXPORT nvmlReturn nvmlInit() { return emu::start(); }
NVML_EXPORT nvmlReturn nvmlShutdown() { return emu::stop(); }
