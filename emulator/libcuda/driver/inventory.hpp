// Which devices a set has: GPUs, or the MIG instances that its GPUs are split into. Driver and NVML agree on it.
#pragma once

#include <string>
#include <vector>

#include "device_model/segment.hpp"
#include "libcuda/driver/config.hpp"

namespace emu {

// One that programs can use: a whole GPU, or an instance.
struct InventoryEntry {
  int index;     // in the set; its segment's
  int gpu;       // which GPU it is, or is on
  int instance;  // of that GPU; kWhole: it is a GPU that is not split
  std::string segment;
  std::string name;
  std::string uuid_text;
  uint8_t uuid[16];
  uint64_t memory_bytes;
};
constexpr int kWhole = -1;

std::vector<InventoryEntry> inventory(const Config& config, const std::string& set);
// Of a GPU that is split: no program can use it itself.
std::string split_gpu_uuid(const Config& config, const std::string& set, int gpu);

}  // namespace emu
