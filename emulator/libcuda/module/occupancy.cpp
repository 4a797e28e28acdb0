#include "libcuda/module/occupancy.hpp"

#include <algorithm>

#include "device_model/limits.hpp"
#include "device_model/occupancy.hpp"

namespace emu {

int active_blocks(const Function& function, int block_threads, size_t dynamic_shared) {
  require(block_threads > 0, CUDA_ERROR_INVALID_VALUE);
  if (block_threads > function.most_threads) return 0;
  if (dynamic_shared > static_cast<size_t>(function.attributes[kMaxDynamicShared])) return 0;
  return blocks_per_multiprocessor(
      {.block_threads = block_threads, .registers = function.rule.registers, .shared_bytes = dynamic_shared});
}

}  // namespace emu

using namespace emu;

namespace {

using DynamicSharedOf = size_t (*)(int block_threads);

struct Suggestion {
  int block_threads = 0;
  int blocks = 0;  // per multiprocessor
};

// The largest block among those with which the most threads are active.
Suggestion best_block(const Function& function, DynamicSharedOf dynamic_of, size_t dynamic, int limit) {
  Suggestion best;
  const int most = limit > 0 ? std::min(limit, limits::kThreadsPerBlock) : limits::kThreadsPerBlock;
  for (int threads = most; threads > 0; threads = (threads - 1) / limits::kWarp * limits::kWarp) {
    const int blocks = active_blocks(function, threads, dynamic_of == nullptr ? dynamic : dynamic_of(threads));
    if (blocks * threads > best.blocks * best.block_threads) best = {threads, blocks};
  }
  return best;
}

unsigned cluster_blocks(const Function& function, const CUlaunchConfig& config) {
  unsigned blocks = 1;
  for (const int side : {kClusterWidth, kClusterHeight, kClusterDepth}) {
    blocks *= static_cast<unsigned>(std::max(function.attributes[side], 1));
  }
  const bool required = function.attributes[kClusterWidth] > 0;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const LaunchAttribute& given = static_cast<const LaunchAttribute*>(config.attrs)[i];
    if (given.id != LaunchAttribute::kClusterDimension) continue;
    const unsigned asked = given.value[0] * given.value[1] * given.value[2];
    require(asked > 0 && (!required || asked == blocks), CUDA_ERROR_INVALID_VALUE);
    return asked;
  }
  require(required, CUDA_ERROR_INVALID_VALUE);
  return blocks;
}

unsigned most_cluster_blocks(const Function& function) {
  return limits::kBlocksPerCluster * (function.attributes[kNonPortableClusters] != 0 ? 2 : 1);
}

int active_blocks(const Function& function, const CUlaunchConfig& config) {
  const uint64_t threads = uint64_t{config.blockDimX} * config.blockDimY * config.blockDimZ;
  require(threads > 0 && threads <= limits::kThreadsPerBlock, CUDA_ERROR_INVALID_VALUE);
  return active_blocks(function, static_cast<int>(threads), config.sharedMemBytes);
}

}  // namespace

CU_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* out, CUfunction function, int block,
                                                                        size_t dynamic, unsigned flags) {
  return api([&] {
    require(out != nullptr && flags <= 1, CUDA_ERROR_INVALID_VALUE);
    *out = active_blocks(function_of(function), block, dynamic);
  });
}

CU_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* out, CUfunction function, int block,
                                                               size_t dynamic) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out, function, block, dynamic, 0);
}

CU_EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function,
                                                             void* dynamic_of, size_t dynamic, int limit,
                                                             unsigned flags) {
  return api([&] {
    require(grid != nullptr && block != nullptr && limit >= 0 && flags <= 1, CUDA_ERROR_INVALID_VALUE);
    const Suggestion best =
        best_block(function_of(function), reinterpret_cast<DynamicSharedOf>(dynamic_of), dynamic, limit);
    *block = best.block_threads;
    *grid = limits::kMultiprocessors * best.blocks;
  });
}

CU_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function, void* dynamic_of,
                                                    size_t dynamic, int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, dynamic_of, dynamic, limit, 0);
}

CU_EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* out, CUfunction function, int blocks, int block) {
  return api([&] {
    const Function& kernel = function_of(function);
    require(out != nullptr && blocks > 0 && blocks <= active_blocks(kernel, block, 0), CUDA_ERROR_INVALID_VALUE);
    // As a real driver: what the system keeps of each block's share is not taken off.
    const int each = limits::kSharedPerMultiprocessor / blocks / limits::kSharedUnit * limits::kSharedUnit;
    const int most = kernel.attributes[kMaxDynamicShared];
    *out = static_cast<size_t>(std::min(each, most));
  });
}

CU_EXPORT CUresult cuOccupancyMaxPotentialClusterSize(int* out, CUfunction function, const CUlaunchConfig* config) {
  return api([&] {
    const Function& kernel = function_of(function);
    require(out != nullptr && config != nullptr, CUDA_ERROR_INVALID_VALUE);
    const bool fits = active_blocks(kernel, *config) > 0;
    *out = fits ? static_cast<int>(most_cluster_blocks(kernel)) : 0;
  });
}

CU_EXPORT CUresult cuOccupancyMaxActiveClusters(int* out, CUfunction function, const CUlaunchConfig* config) {
  return api([&] {
    const Function& kernel = function_of(function);
    require(out != nullptr && config != nullptr, CUDA_ERROR_INVALID_VALUE);
    const unsigned cluster = cluster_blocks(kernel, *config);
    require(cluster <= most_cluster_blocks(kernel), CUDA_ERROR_INVALID_VALUE);
    *out = limits::kMultiprocessors * active_blocks(kernel, *config) / static_cast<int>(cluster);
  });
}
