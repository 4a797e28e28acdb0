// The model file (TOML): what the emulated device is and how long things take. Keys: docs/design/contracts.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device_model/state.hpp"

namespace emu {

struct KernelRule {
  std::string match;         // glob on the function's name
  bool from_param0 = false;  // the first parameter is the duration in ns
  double base_us = 3.0;
  double ns_per_thread = 0.02;
  int registers = 32;  // of a thread
};

// What a driver's own work takes, in undilated time. All 0: what is enqueued is on the device at once.
struct DriverTimes {
  int64_t submission_ns = 0;         // a launch's, copy's or fill's way to the device; one of a stream after another
  int64_t event_ns = 0;              // the same of what needs no engine: events, waits, writes to memory
  int64_t first_launch_ns = 0;       // the first launch of each function loads it, inside the call
  bool first_launch_waits = false;   // ...and waits for the context's work before
  int64_t dependent_overlap_ns = 0;  // so much of a programmatic dependent launch runs beside its predecessor's end
};

// What calls about memory by its physical pieces (cuMemCreate and the rest) take for each 2 MiB, in undilated time.
struct VirtualMemoryTimes {
  int64_t create_ns = 0;
  int64_t map_ns = 0;
  int64_t set_access_ns = 0;
  int64_t unmap_ns = 0;
};

// A driver that lets no program into MPS, for tests of what a program does then.
struct MpsRefusal {
  int error = 0;            // CUresult of cuInit where the pipe directory has a server; 0: clients are let in
  bool init_again = false;  // cuInit may be called again after an error of MPS; false: it repeats the error for good
};

constexpr int kMigSlices = 7;

// What a MIG instance is: "3g.71gb".
struct MigProfile {
  std::string name;
  int slices = 0;  // of the GPU's seven
  uint64_t memory_bytes = 0;
};

struct Config {
  std::string name = "Emulated GPU";
  int count = 1;
  uint64_t memory_bytes = uint64_t{16} << 30;
  std::vector<MigProfile> mig;  // the instances that every GPU is split into; none: it is not split
  uint64_t context_memory_bytes = uint64_t{64} << 20;
  int64_t slice_ns = 1'024'000;
  int64_t switch_ns = 50'000;
  int64_t launch_latency_ns = 0;
  int64_t kernel_gap_ns = 0;
  int64_t event_gap_ns = 0;         // between two timed events in line, and...
  int64_t kernel_event_gap_ns = 0;  // ...between such an event and a kernel, in either order
  int concurrent_kernels = 1;
  Sharing sharing = Sharing::slices;
  MpsModel mps_model = MpsModel::proportion;
  int64_t mps_switch_ns = 0;
  bool idle_yields = true;  // a process without work gives the compute engine away before its slice ends
  double overlap_slowdown = 1.0;
  double dilation = 1.0;  // every duration is stretched by this; reported event times are shrunk again
  bool for_all_users = false;
  int compute_major = 9;
  int compute_minor = 0;
  double copy_latency_us = 4.0;
  double h2d_gbps = 24.0;  // 1e9 bytes per second
  double d2h_gbps = 24.0;
  double d2d_gbps = 1000.0;
  double both_ways = 1.0;  // each direction's share of its rate while the other one is in use, too
  // Of managed memory on its way over the link; 0: h2d_gbps, d2h_gbps, out_gbps.
  double in_gbps = 0;
  double out_gbps = 0;
  double first_out_gbps = 0;  // of memory that was never out: the host has none for it yet
  int64_t fault_batch_ns = 30'000;  // of managed memory that is not on the device: what a batch of faults costs, and...
  uint64_t fault_batch_bytes = kChunkBytes;  // ...how much memory it leads to
  bool out_is_host = false;  // a pointer to managed memory that is not on the device is of type "host"
  // Of prefetches on a stream without work: one away from the device returns when its move is over; one to it takes so
  // long for each chunk.
  bool out_blocks = false;
  int64_t in_call_ns = 0;
  VirtualMemoryTimes virtual_memory;
  DriverTimes driver;
  MpsRefusal mps;
  KernelRule fallback;
  std::vector<KernelRule> kernels;

  int64_t stretched(int64_t ns) const;  // by the dilation
  const KernelRule& rule_for(const std::string& kernel) const;
  // What the device model is to be like, in stretched time.
  DeviceParameters device(uint64_t memory_of_it) const;
};

// Reads `path`; unknown keys and bad values throw std::runtime_error with one sentence (file, line, what, what is
// allowed).
Config load_config(const std::string& path);
// EMUCUDA_CONFIG, or default.toml beside this library.
std::string config_path();

}  // namespace emu
