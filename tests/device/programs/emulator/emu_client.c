/* One process on the emulated GPU, as a test's partner. Usage: emu_client MODE [NUMBER]...
 *   spin US COUNT    kernels of US microseconds, all enqueued at once; prints wall ms and the events' ms
 *   order COUNT      emu_check_order launches over two streams; exit code 1 when one was lost or out of order
 *   forever US       kernels of US microseconds until killed; prints "running" after the first
 *   hold MIB         allocates MIB and waits for its stdin to close; prints "holding" or the error's number
 *   streams COUNT    opens so many streams at once, on top of the context's own; exit code 1 when there are not so many
 *   count            prints the number of devices and the first one's uuid, or the error's number */
#include <unistd.h>

#include "emu_api.h"

static int spin_mode(uint64_t us, int count) {
  CUcontext context;
  CUfunction f = kernel(open_device(&context), "fikit_spin");
  CUevent begin, end;
  float ms;
  OK(cuEventCreate(&begin, 0));
  OK(cuEventCreate(&end, 0));
  puts("ready");
  fflush(stdout);
  getchar(); /* the test starts all partners at once */
  int64_t start = now_ns();
  OK(cuEventRecord(begin, NULL));
  for (int i = 0; i < count; ++i) spin(f, us * 1000, NULL);
  OK(cuEventRecord(end, NULL));
  OK(cuCtxSynchronize());
  OK(cuEventElapsedTime(&ms, begin, end));
  printf("%.3f %.3f\n", (double)(now_ns() - start) / 1e6, ms);
  return 0;
}

static int order_mode(uint32_t count) {
  CUcontext context;
  CUmodule module = open_device(&context);
  CUfunction check = kernel(module, "emu_check_order");
  CUstream streams[2];
  CUevent event;
  CUdeviceptr counter;
  uint32_t value;
  OK(cuStreamCreate(&streams[0], 1));
  OK(cuStreamCreate(&streams[1], 1));
  OK(cuEventCreate(&event, 2));
  OK(cuMemAlloc_v2(&counter, 4));
  OK(cuMemsetD8_v2(counter, 0, 4));
  for (uint32_t i = 0; i < count; ++i) {
    void *parameters[] = {&counter, &i};
    CUstream stream = streams[i / 10 % 2];
    OK(cuLaunchKernel(check, 64, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
    if (i % 10 != 9) continue;
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(streams[(i / 10 + 1) % 2], event, 0));
  }
  OK(cuCtxSynchronize());
  OK(cuMemcpyDtoH_v2(&value, counter, 4));
  return value == count ? 0 : 1;
}

static int forever_mode(uint64_t us) {
  CUcontext context;
  CUdeviceptr memory;
  CUfunction f = kernel(open_device(&context), "fikit_spin");
  OK(cuMemAlloc_v2(&memory, 1 << 30));
  for (uint64_t i = 0;; ++i) {
    spin(f, us * 1000, NULL);
    if (i == 0) puts("running");
    if (i == 0) fflush(stdout);
  }
}

static int hold_mode(size_t mib) {
  CUcontext context;
  CUdeviceptr memory;
  OK(cuInit(0));
  int result = cuCtxCreate_v2(&context, 0, 0);
  if (result == 0) result = cuMemAlloc_v2(&memory, mib << 20);
  if (result == 0) puts("holding");
  else printf("%d\n", result);
  fflush(stdout);
  getchar();
  return 0;
}

static int streams_mode(int count) {
  CUcontext context;
  CUstream stream;
  open_device(&context);
  for (int i = 0; i < count; ++i) OK(cuStreamCreate(&stream, 1));
  return 0;
}

static int count_mode(void) {
  unsigned char uuid[16];
  int count, result = cuInit(0);
  if (result != 0) {
    printf("error %d\n", result);
    return 0;
  }
  OK(cuDeviceGetCount(&count));
  OK(cuDeviceGetUuid_v2(uuid, 0));
  printf("%d GPU-", count);
  for (int i = 0; i < 16; ++i) printf("%02x%s", uuid[i], i == 3 || i == 5 || i == 7 || i == 9 ? "-" : "");
  puts("");
  return 0;
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
  if (strcmp(mode, "spin") == 0) return spin_mode(first, argc > 3 ? atoi(argv[3]) : 1);
  if (strcmp(mode, "order") == 0) return order_mode((uint32_t)first);
  if (strcmp(mode, "forever") == 0) return forever_mode(first);
  if (strcmp(mode, "hold") == 0) return hold_mode(first);
  if (strcmp(mode, "streams") == 0) return streams_mode((int)first);
  if (strcmp(mode, "count") == 0) return count_mode();
  return 2;
}
