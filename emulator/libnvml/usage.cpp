// What the devices do at the moment: memory, processes, utilisation.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "../device_model/clock.hpp"
#include "library.hpp"

using namespace emu;

namespace {

unsigned percent(double share) { return static_cast<unsigned>(std::lround(100 * share)); }

uint64_t epoch_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

struct ProcessUse {
  unsigned pid;
  uint64_t memory_bytes;
  unsigned percent;
  unsigned gpu_instance;
  unsigned compute_instance;
  bool mps;  // an MPS client
};

struct Use {
  uint64_t memory_bytes = 0;
  uint64_t memory_used = 0;
  unsigned percent = 0;
  std::vector<ProcessUse> processes;
};

// What one segment shows, added to the rest.
void look_into(const std::string& name, unsigned gpu_instance, unsigned compute_instance, Use& use) {
  std::optional<Segment> segment = Segment::find(name);
  if (!segment) return;
  Segment::Lock model(*segment);
  retire_dead(*model, true);
  model->advance(RealClock().now_ns());
  const DeviceState& state = model->state();
  require(state.lost == 0, NVML_ERROR_GPU_IS_LOST);
  use.memory_used += model->memory_used();
  use.percent = percent(model->utilisation(kNone));
  for (int i = 0; i < kMaxProcesses; ++i) {
    const ProcessState& process = state.processes[i];
    if (process.pid == 0) continue;
    use.processes.push_back({static_cast<unsigned>(process.pid), process.memory_bytes + process.resident_bytes,
                             percent(model->utilisation(i)), gpu_instance, compute_instance, process.mps != 0});
    const auto server = static_cast<unsigned>(process.server);
    const auto is_server = [&](const ProcessUse& known) { return known.pid == server && !known.mps; };
    if (process.server != 0 && std::none_of(use.processes.begin(), use.processes.end(), is_server))
      use.processes.push_back({server, 0, 0, gpu_instance, compute_instance, false});
  }
}

// The device as of now. One that no process has used yet is idle and empty, and stays without a segment.
Use look(const Library& lib, const MonitoredDevice& device) {
  Use use;
  use.memory_bytes = device.memory_bytes;
  for (size_t i = 0; i < device.segments.size(); ++i) {
    const auto instance = static_cast<unsigned>(device.instance ? device.index : static_cast<int>(i));
    look_into(device.segments[i], lib.split() ? gpu_instance_id(instance) : kNoInstance,
              lib.split() ? kComputeInstance : kNoInstance, use);
  }
  return use;
}

// NVML's protocol for lists: the caller says how many records it has room for, and learns how many there are.
template <typename Record>
void give_list(Record* out, unsigned* count, const std::vector<Record>& records) {
  require(count != nullptr, NVML_ERROR_INVALID_ARGUMENT);
  const unsigned room = out == nullptr ? 0 : *count;
  *count = static_cast<unsigned>(records.size());
  require(room >= records.size(), NVML_ERROR_INSUFFICIENT_SIZE);
  std::copy(records.begin(), records.end(), out);
}

// MPS clients have a list of their own; their server stands in that of the others.
nvmlReturn give_processes(nvmlDevice handle, unsigned* count, nvmlProcessInfo* out, bool mps) {
  return api(handle, [&](const Library& lib, const MonitoredDevice& device) {
    std::vector<nvmlProcessInfo> records;
    for (const ProcessUse& process : look(lib, device).processes) {
      if (process.mps == mps)
        records.push_back({process.pid, process.memory_bytes, process.gpu_instance, process.compute_instance});
    }
    give_list(out, count, records);
  });
}

nvmlReturn no_processes(nvmlDevice handle, unsigned* count) {
  return api(handle, [&](const Library&, const MonitoredDevice&) { give(count, 0); });
}

}  // namespace

void emu::require_present(const MonitoredDevice& device) {
  for (const std::string& name : device.segments) {
    std::optional<Segment> segment = Segment::find(name);
    require(!segment || Segment::Lock(*segment)->state().lost == 0, NVML_ERROR_GPU_IS_LOST);
  }
}

NVML_EXPORT nvmlReturn nvmlDeviceGetMemoryInfo(nvmlDevice handle, nvmlMemory* out) {
  return api(handle, [&](const Library& lib, const MonitoredDevice& device) {
    const Use use = look(lib, device);
    give(out, {use.memory_bytes, use.memory_bytes - use.memory_used, use.memory_used});
  });
}

NVML_EXPORT nvmlReturn nvmlDeviceGetMemoryInfo_v2(nvmlDevice handle, nvmlMemory_v2* out) {
  return api(handle, [&](const Library& lib, const MonitoredDevice& device) {
    require(out != nullptr, NVML_ERROR_INVALID_ARGUMENT);
    require(out->version == (sizeof *out | 2U << 24), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    const Use use = look(lib, device);
    *out = {out->version, use.memory_bytes, 0, use.memory_bytes - use.memory_used, use.memory_used};
  });
}

// The share of time with a kernel running, as NVML defines it; not where MIG is on. The traffic of the memory is not modelled.
NVML_EXPORT nvmlReturn nvmlDeviceGetUtilizationRates(nvmlDevice handle, nvmlUtilization* out) {
  return api(handle, [&](const Library& lib, const MonitoredDevice& device) {
    require(!lib.split(), NVML_ERROR_NOT_SUPPORTED);
    give(out, {look(lib, device).percent, 0});
  });
}

NVML_EXPORT nvmlReturn nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice handle, unsigned* count,
                                                               nvmlProcessInfo* out) {
  return give_processes(handle, count, out, false);
}

// The second version's records are the third's.
NVML_EXPORT nvmlReturn nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice handle, unsigned* count,
                                                               nvmlProcessInfo* out) {
  return nvmlDeviceGetComputeRunningProcesses_v3(handle, count, out);
}

NVML_EXPORT nvmlReturn nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice handle, unsigned* count, nvmlProcessInfo*) {
  return no_processes(handle, count);
}

NVML_EXPORT nvmlReturn nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice handle, unsigned* count, nvmlProcessInfo*) {
  return no_processes(handle, count);
}

NVML_EXPORT nvmlReturn nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice handle, unsigned* count,
                                                                  nvmlProcessInfo* out) {
  return give_processes(handle, count, out, true);
}

NVML_EXPORT nvmlReturn nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice handle, unsigned* count,
                                                                  nvmlProcessInfo* out) {
  return give_processes(handle, count, out, true);
}

// One sample, of the period that ends now, per process that was busy in it.
NVML_EXPORT nvmlReturn nvmlDeviceGetProcessUtilization(nvmlDevice handle, nvmlProcessUtilizationSample* out,
                                                       unsigned* count, uint64_t last_seen_us) {
  return api(handle, [&](const Library& lib, const MonitoredDevice& device) {
    require(!lib.split(), NVML_ERROR_NOT_SUPPORTED);
    const uint64_t now_us = epoch_us();
    std::vector<nvmlProcessUtilizationSample> samples;
    for (const ProcessUse& process : look(lib, device).processes) {
      if (process.percent > 0 && now_us > last_seen_us)
        samples.push_back({process.pid, now_us, process.percent, 0, 0, 0});
    }
    require(!samples.empty(), NVML_ERROR_NOT_FOUND);
    give_list(out, count, samples);
  });
}
