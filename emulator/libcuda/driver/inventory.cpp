#include "libcuda/driver/inventory.hpp"

namespace emu {

std::vector<InventoryEntry> inventory(const Config& config, const std::string& set) {
  std::vector<InventoryEntry> entries;
  const auto add = [&](int gpu, int instance, const std::string& name, uint64_t memory_bytes) {
    const int index = static_cast<int>(entries.size());
    InventoryEntry entry{index, gpu, instance, segment_name(config.for_all_users, set, index), name, {}, {}, memory_bytes};
    device_uuid(entry.segment, entry.uuid);
    entry.uuid_text = uuid_text(entry.uuid, instance != kWhole);
    entries.push_back(std::move(entry));
  };
  for (int gpu = 0; gpu < config.count; ++gpu) {
    if (config.mig.empty()) add(gpu, kWhole, config.name, config.memory_bytes);
    for (int i = 0; i < static_cast<int>(config.mig.size()); ++i) {
      const MigProfile& profile = config.mig[static_cast<size_t>(i)];
      add(gpu, i, config.name + kMigMark + profile.name, profile.memory_bytes);
    }
  }
  return entries;
}

std::string split_gpu_uuid(const Config& config, const std::string& set, int gpu) {
  uint8_t uuid[16];
  device_uuid(segment_name(config.for_all_users, set, gpu) + ".split", uuid);
  return uuid_text(uuid, false);
}

}  // namespace emu
