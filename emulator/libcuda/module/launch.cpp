#include "libcuda/module/launch.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "libcuda/graph/capture.hpp"
#include "device_model/limits.hpp"
#include "libcuda/memory/virtual_memory.hpp"
#include "libcuda/module/occupancy.hpp"

namespace emu {
namespace {

// `extra` is a list of (key, value) up to a null key; key 1 is the packed parameter buffer.
const char* packed_parameters(void** extra) {
  for (; extra != nullptr && extra[0] != nullptr; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) return static_cast<const char*>(extra[1]);
  }
  return nullptr;
}

// The size of the packed buffer, the same way.
size_t packed_bytes(void** extra) {
  for (; extra != nullptr && extra[0] != nullptr; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE) return *static_cast<const size_t*>(extra[1]);
  }
  return 0;
}

// Every word of the parameters that is an address of managed memory, or of addresses that were reserved (cuMemAddressReserve): what
// the kernel uses, as far as its launch tells.
// Parameters whose sizes the image does not say are not looked at.
std::vector<Extent> named_memory(const Function& function, void** parameters, void** extra) {
  std::vector<Extent> found;
  const auto look = [&](const char* bytes, size_t count) {
    for (size_t at = 0; at + sizeof(uintptr_t) <= count; at += sizeof(uintptr_t)) {
      uintptr_t word = 0;
      memcpy(&word, bytes + at, sizeof word);
      const auto memory = driver().memory().find(word);
      if (memory && memory->managed != nullptr) found.push_back({memory->base, 0});
      if (address_space().used() && address_space().reservation(word).second > 0) found.push_back({word, 1});
    }
  };
  const auto* sizes = function.parameters();
  if (parameters != nullptr && sizes != nullptr) {
    for (size_t i = 0; i < sizes->size(); ++i) look(static_cast<const char*>(parameters[i]), (*sizes)[i].bytes);
  } else if (parameters == nullptr && packed_parameters(extra) != nullptr) {
    look(packed_parameters(extra), packed_bytes(extra));
  }
  return found;
}

}  // namespace

void require_shared(const void* handle, unsigned dynamic_bytes) {
  const int most = function_of(handle).attributes[kMaxDynamicShared];
  require(dynamic_bytes <= static_cast<unsigned>(most), CUDA_ERROR_INVALID_VALUE);
}

void load_now(Function& function, Context* waits) {
  const DriverTimes& times = driver().config().driver;
  if (times.first_launch_ns == 0 || function.loaded.exchange(true)) return;
  if (waits != nullptr && times.first_launch_waits) waits->synchronize();
  std::this_thread::sleep_for(std::chrono::nanoseconds(driver().config().stretched(times.first_launch_ns)));
}

Command kernel_command(const void* handle, const Grid& g, unsigned shared_bytes, void** parameters, void** extra) {
  const Function& function = function_of(handle);
  const uint64_t block_threads = uint64_t{g.block[0]} * g.block[1] * g.block[2];
  const uint64_t blocks = uint64_t{g.grid[0]} * g.grid[1] * g.grid[2];
  bool fits = blocks > 0 && block_threads > 0 && block_threads <= limits::kThreadsPerBlock;
  for (int i = 0; i < 3; ++i) fits = fits && g.block[i] <= limits::kBlock[i] && g.grid[i] <= limits::kGrid[i];
  require(fits, CUDA_ERROR_INVALID_VALUE);
  require(block_threads <= static_cast<uint64_t>(function.most_threads), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  const Arguments arguments(parameters, packed_parameters(extra));
  require(arguments.given() || (!function.rule.from_param0 && function.effect == nullptr), CUDA_ERROR_INVALID_VALUE);
  Command command;
  command.kind = OpKind::kernel;
  command.kernel = &function.name;
  command.shape = g;
  command.footprint = {.blocks = blocks,
                       .block_threads = static_cast<int>(block_threads),
                       .registers = function.rule.registers,
                       .shared_bytes = shared_bytes};
  if (function.rule.from_param0) {
    command.duration_ns = static_cast<int64_t>(arguments.get<uint64_t>(0, 0));
  } else {
    command.duration_ns = std::llround(function.rule.base_us * 1e3 +
                                       function.rule.ns_per_thread * static_cast<double>(blocks * block_threads));
  }
  if (function.effect != nullptr) command.effect = function.effect(arguments);
  if (driver().memory().has_managed() || address_space().used()) command.memory = named_memory(function, parameters, extra);
  return command;
}

}  // namespace emu

using namespace emu;

namespace {

struct LaunchForm {
  bool cooperative = false;
  bool dependent = false;  // programmatic dependent launch
};

// It may begin before the kernel in front of it has ended.
bool is_dependent(const CUlaunchConfig& config) {
  const auto* attributes = static_cast<const LaunchAttribute*>(config.attrs);
  return std::any_of(attributes, attributes + config.numAttrs, [](const LaunchAttribute& given) {
    return given.id == LaunchAttribute::kProgrammaticSerialization && given.value[0] != 0;
  });
}

// A captured launch keeps its description, which later calls on its node ask for; an executed one needs none.
void launch(Stream& stream, const void* function, const Grid& grid, unsigned shared, void** parameters, void** extra,
            LaunchForm form = {}) {
  require_shared(function, shared);
  Command command = kernel_command(function, grid, shared, parameters, extra);
  command.dependent = form.dependent;
  load_now(function_of(function), stream.capture == nullptr ? stream.context : nullptr);
  if (stream.capture == nullptr) {
    submit(stream, std::move(command));
  } else {
    auto described = std::make_shared<KernelLaunch>(function, grid, shared, parameters, extra);
    described->cooperative = form.cooperative;
    record(stream, Work{KernelNode{std::move(described)}, {std::move(command)}});
  }
}

}  // namespace

CU_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                  CUstream stream, void** parameters, void** extra) {
  return api([&] {
    const Grid grid{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}};
    launch(resolve(stream), function, grid, shared, parameters, extra);
  });
}

CU_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                                    void** extra) {
  return api([&] {
    require(config != nullptr, CUDA_ERROR_INVALID_VALUE);
    const Grid grid{{config->gridDimX, config->gridDimY, config->gridDimZ},
                    {config->blockDimX, config->blockDimY, config->blockDimZ}};
    launch(resolve(config->hStream), function, grid, config->sharedMemBytes, parameters, extra,
           {.dependent = config->attrs != nullptr && is_dependent(*config)});
  });
}

// All blocks wait for each other: they must fit onto the device at once.
CU_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                             CUstream stream, void** parameters) {
  return api([&] {
    const Grid grid{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}};
    const uint64_t threads = uint64_t{block_x} * block_y * block_z;
    if (threads > 0 && threads <= limits::kThreadsPerBlock) {
      const int fit = limits::kMultiprocessors * active_blocks(function_of(function), static_cast<int>(threads), shared);
      const uint64_t blocks = uint64_t{grid_x} * grid_y * grid_z;
      require(fit == 0 || blocks <= static_cast<uint64_t>(fit), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    }
    launch(resolve(stream), function, grid, shared, parameters, nullptr, {.cooperative = true});
  });
}
