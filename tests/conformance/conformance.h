/* Programs that say what a driver does, one line per observation. They run unchanged on the emulated and on a real GPU:
 * own declarations, linked to whatever libcuda.so.1 is found. What a driver should say: expectations.txt. */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include "../device/programs/emulator/emu_api.h"

CUresult cuStreamWriteValue32_v2(CUstream, CUdeviceptr, uint32_t, unsigned), cuStreamWaitValue32_v2(CUstream, CUdeviceptr, uint32_t, unsigned);

/* One observation: a result code, a count, a value. Never a time or an address. It is out at once, so that a driver that crashes
 * in the next call leaves it behind. */
__attribute__((unused)) static void see(const char *name, long long value) {
  printf("%s %lld\n", name, value);
  fflush(stdout);
}

/* Time for work that only has to be unfinished when the next calls are made. */
enum { LONG_NS = 20000000 };

/* The memory is zero when this returns, for streams too that do not wait for the default stream: a memset does not wait. */
__attribute__((unused)) static CUdeviceptr zeroed(size_t bytes) {
  CUdeviceptr memory;
  OK(cuMemAlloc_v2(&memory, bytes));
  OK(cuMemsetD8_v2(memory, 0, bytes));
  OK(cuStreamSynchronize(NULL));
  return memory;
}

__attribute__((unused)) static uint32_t word(CUdeviceptr memory) {
  uint32_t value;
  OK(cuMemcpyDtoH_v2(&value, memory, 4));
  return value;
}

/* Adds 1 to the word at `counter` when the device comes to it. */
__attribute__((unused)) static CUresult increment(CUfunction function, CUdeviceptr counter, CUstream stream) {
  void *parameters[] = {&counter};
  return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

#endif
