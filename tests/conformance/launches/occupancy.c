/* What fits: launches against the limits of the device, and what the occupancy calls say about the same function. */
#include "../conformance.h"

CUresult cuFuncGetAttribute(int *, int, CUfunction), cuFuncSetAttribute(CUfunction, int, int);
CUresult cuKernelGetAttribute(int *, int, CUkernel, CUdevice), cuKernelSetAttribute(int, int, CUkernel, CUdevice);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *, CUfunction, int, size_t);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *, CUfunction, int, size_t, unsigned);
CUresult cuOccupancyMaxPotentialBlockSize(int *, int *, CUfunction, size_t (*)(int), size_t, int);
CUresult cuLaunchCooperativeKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **);
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *, CUfunction, int, int);

enum { MAX_THREADS = 0, SHARED_BYTES = 1, REGISTERS = 4, MAX_DYNAMIC_SHARED = 8 };                  /* of a function */
enum { THREADS_PER_BLOCK = 1, BLOCK_X = 2, BLOCK_Z = 4, GRID_Y = 6, SHARED_PER_BLOCK = 8, WARP = 10 }; /* of a device */
enum { PROCESSORS = 16, THREADS_PER_PROCESSOR = 39, SHARED_PER_PROCESSOR = 81, RESERVED_SHARED = 111, SHARED_OPT_IN = 97, BLOCKS_PER_PROCESSOR = 106 };

static int device_says(int attribute) {
  int value;
  OK(cuDeviceGetAttribute(&value, attribute, 0));
  return value;
}

static int function_says(CUfunction function, int attribute) {
  int value = -1;
  OK(cuFuncGetAttribute(&value, attribute, function));
  return value;
}

static CUresult launch(CUfunction function, unsigned grid_y, unsigned x, unsigned y, unsigned z, unsigned shared) {
  uint64_t ns = 0;
  void *parameters[] = {&ns};
  return cuLaunchKernel(function, 1, grid_y, 1, x, y, z, shared, NULL, parameters, NULL);
}

static size_t one_word_each(int threads) { return (size_t)threads * 4; }

int main(void) {
  CUcontext context;
  CUfunction f = kernel(open_device(&context), "fikit_spin");
  const int threads = device_says(THREADS_PER_BLOCK), shared = device_says(SHARED_PER_BLOCK), opt_in = device_says(SHARED_OPT_IN);
  const int most_threads = device_says(THREADS_PER_PROCESSOR), most_blocks = device_says(BLOCKS_PER_PROCESSOR);

  see("function_threads", function_says(f, MAX_THREADS) == threads);
  see("function_has_registers", function_says(f, REGISTERS) > 0);
  see("function_static_shared", function_says(f, SHARED_BYTES));
  see("dynamic_shared_at_first", function_says(f, MAX_DYNAMIC_SHARED) == shared);

  see("full_block", launch(f, 1, (unsigned)threads, 1, 1, 0));
  see("too_many_threads", launch(f, 1, (unsigned)threads, 2, 1, 0));
  see("too_wide", launch(f, 1, (unsigned)device_says(BLOCK_X) + 1, 1, 1, 0));
  see("too_deep", launch(f, 1, 1, 1, (unsigned)device_says(BLOCK_Z) + 1, 0));
  see("too_many_rows", launch(f, (unsigned)device_says(GRID_Y) + 1, 1, 1, 1, 0));
  see("no_threads", launch(f, 1, 0, 1, 1, 0));
  see("all_shared", launch(f, 1, 32, 1, 1, (unsigned)shared));
  see("too_much_shared", launch(f, 1, 32, 1, 1, (unsigned)shared + 16));
  see("opt_in", cuFuncSetAttribute(f, MAX_DYNAMIC_SHARED, opt_in));
  see("opt_in_reads_back", function_says(f, MAX_DYNAMIC_SHARED) == opt_in);
  see("more_shared_now", launch(f, 1, 32, 1, 1, (unsigned)opt_in));
  see("opt_in_to_more_than_there_is", cuFuncSetAttribute(f, MAX_DYNAMIC_SHARED, opt_in + 16));
  see("read_only_attribute", cuFuncSetAttribute(f, REGISTERS, 8));
  see("unknown_attribute", cuFuncGetAttribute((int[]){0}, 99, f));
  OK(cuCtxSynchronize());

  int blocks = 0, grid = 0, block = 0;
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 32, 0));
  see("small_blocks", blocks == (most_blocks < most_threads / 32 ? most_blocks : most_threads / 32));
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, threads, 0));
  see("large_blocks", blocks == most_threads / threads);
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, f, 32, (size_t)opt_in, 0));
  see("blocks_with_all_shared", blocks);
  see("empty_block", cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 0, 0));
  OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, f, NULL, 0, 0));
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, block, 0));
  see("suggested_grid_fills_the_device", grid == blocks * device_says(PROCESSORS));
  uint64_t ns = 0;
  void *parameters[] = {&ns};
  see("cooperative", cuLaunchCooperativeKernel(f, (unsigned)grid, 1, 1, (unsigned)block, 1, 1, 0, NULL, parameters));
  see("cooperative_beyond_the_device", cuLaunchCooperativeKernel(f, (unsigned)grid + 1, 1, 1, (unsigned)block, 1, 1, 0, NULL, parameters));
  see("suggested_block_is_whole_warps", block % device_says(WARP));
  OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, f, NULL, 0, 100));
  see("suggested_block_within_limit", block > 0 && block <= 100);
  OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, f, one_word_each, 0, 0));
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, block, one_word_each(block)));
  see("suggestion_asks_for_shared", blocks > 0 && grid == blocks * device_says(PROCESSORS));
  size_t bytes = 0;
  OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, f, 2, 128));
  see("available_shared_is_an_equal_share", bytes == (size_t)device_says(SHARED_PER_PROCESSOR) / 2);
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 128, bytes - (size_t)device_says(RESERVED_SHARED)));
  see("less_what_the_driver_keeps_it_fits", blocks);

  CUlibrary library;
  CUkernel handle;
  int value = 0;
  OK(cuLibraryLoadData(&library, kPtx, NULL, NULL, 0, NULL, NULL, 0));
  OK(cuLibraryGetKernel(&handle, library, "fikit_spin"));
  see("kernel_set", cuKernelSetAttribute(MAX_DYNAMIC_SHARED, 1024, handle, 0));
  OK(cuKernelGetAttribute(&value, MAX_DYNAMIC_SHARED, handle, 0));
  see("kernel_get", value);
  return 0;
}
