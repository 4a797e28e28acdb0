#include "libcuda/driver/driver.hpp"

#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>

namespace emu {
namespace {

std::atomic<Driver*> g_driver{nullptr};
std::mutex g_initialising;
bool g_initialised = false;  // g_init_result is the answer of every cuInit from now on
CUresult g_init_result = CUDA_ERROR_NOT_INITIALIZED;

// Which emulated devices the program may see, in its order. As the CUDA manual has it: indices or UUID prefixes, and
// the first entry that names nothing ends the list.
std::vector<int> listed_devices(const std::vector<InventoryEntry>& all) {
  std::vector<int> visible;
  const char* list = getenv("CUDA_VISIBLE_DEVICES");
  if (list == nullptr) {
    for (size_t i = 0; i < all.size(); ++i) visible.push_back(static_cast<int>(i));
    return visible;
  }
  std::stringstream entries(list);
  for (std::string entry; std::getline(entries, entry, ',');) {
    int found = -1;
    char* end = nullptr;
    const long index = strtol(entry.c_str(), &end, 10);
    if (end != entry.c_str() && *end == '\0') {
      found = index >= 0 && index < static_cast<long>(all.size()) ? static_cast<int>(index) : -1;
    } else {
      for (size_t i = 0; i < all.size() && entry.size() > 4; ++i) {
        if (all[i].uuid_text.compare(0, entry.size(), entry) == 0) found = static_cast<int>(i);
      }
    }
    if (found < 0) break;
    visible.push_back(found);
  }
  return visible;
}

// Of MIG instances a program sees one at most, the first (MIG user guide, "CUDA visible devices").
std::vector<int> visible_devices(const Config& config, const std::vector<InventoryEntry>& all) {
  std::vector<int> visible = listed_devices(all);
  if (!config.mig.empty() && visible.size() > 1) visible.resize(1);
  return visible;
}

// After a client's fatal fault the server takes no new ones until all have left.
void require_no_fault(const InventoryEntry& entry) {
  std::optional<Segment> segment = Segment::find(entry.segment);
  if (!segment) return;
  Segment::Lock device(*segment);
  retire_dead(*device, true);
  require(device->state().mps_fault == 0, CUDA_ERROR_MPS_SERVER_NOT_READY);
}

}  // namespace

void say(const std::string& line) { fprintf(stderr, "%s\n", line.c_str()); }

Driver::Driver() : config_(load_config(config_path())), set_(set_name()), mps_(config_) {
  const std::vector<InventoryEntry> all = inventory(config_, set_);
  for (const int index : visible_devices(config_, all)) {
    auto device = std::make_unique<Device>();
    device->ordinal = static_cast<int>(devices_.size());
    device->entry = all[static_cast<size_t>(index)];
    memcpy(device->uuid.bytes, device->entry.uuid, sizeof device->uuid.bytes);
    devices_.push_back(std::move(device));
    if (mps_.is_client()) require_no_fault(devices_.back()->entry);
  }
}

Session& Device::session() {
  const std::lock_guard lock(session_mutex);
  if (session_owner != nullptr) return *session_owner;
  const Config& config = driver().config();
  DeviceIdentity identity{};
  snprintf(identity.name, sizeof identity.name, "%s", entry.name.c_str());
  memcpy(identity.uuid, entry.uuid, sizeof identity.uuid);
  identity.index = entry.index;
  identity.dilation = config.dilation;
  Segment segment(entry.segment, config.for_all_users, identity, config.device(entry.memory_bytes));
  if (const uint64_t records = asked_trace_records(); records > 0 && !segment.tracing()) segment.trace_on(records);
  const MpsClient& mps = driver().mps();
  session_owner = std::make_unique<Session>(std::move(segment), entry.index, config, mps, mps.memory_limit(ordinal));
  return *session_owner;
}

// Nobody knows whether NVIDIA's cuInit can be called again after an error of MPS: the model file chooses.
bool may_begin_again(CUresult result) {
  return is_mps_refusal(result) && load_config(config_path()).mps.init_again;
}

CUresult initialise_driver() {
  const std::lock_guard lock(g_initialising);
  if (g_initialised) return g_init_result;
  static std::once_flag once;
  std::call_once(once, [] {
    // A forked child shares neither the device slot nor the locks: as with the real driver, it has no CUDA.
    pthread_atfork(nullptr, nullptr, [] {
      g_driver.store(nullptr);
      g_faults.store(nullptr);
      g_init_result = CUDA_ERROR_NOT_INITIALIZED;
      g_initialised = true;
    });
  });
  g_init_result = api([] {
    auto made = std::make_unique<Driver>();
    require(made->count() > 0, CUDA_ERROR_NO_DEVICE);
    auto faults = std::make_unique<Faults>(FaultTable(fault_table_name(made->config().for_all_users, made->set()), made->config().for_all_users));
    g_faults.store(faults.release());
    g_driver.store(made.release());
  });
  g_initialised = !may_begin_again(g_init_result);
  return g_init_result;
}

Driver& driver() {
  Driver* made = g_driver.load(std::memory_order_acquire);
  require(made != nullptr, CUDA_ERROR_NOT_INITIALIZED);
  return *made;
}

}  // namespace emu
