/* Giving a context up while work in it hangs. The first launch of fikit_spin shall hang. Usage: emu_destroy MODE
 *   context   cuCtxDestroy with hung work, a stream wait that nothing ends, callbacks behind it, and a thread that waits
 *   primary   the same by releasing and by resetting the primary context
 *   stream    cuStreamDestroy and cuMemFreeAsync behind hung work, then the context
 *   running   cuCtxDestroy returns after the host function that is just running
 *   streams   streams come and go in one thread while another one records and waits for events of the whole context
 *   exit      leaves without a word; prints "leaving" */
#include <pthread.h>
#include <unistd.h>

#include "emu_api.h"

CUresult cuStreamAddCallback(CUstream, void (*)(CUstream, CUresult, void *), void *, unsigned);
CUresult cuStreamWaitValue32_v2(CUstream, CUdeviceptr, uint32_t, unsigned);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice), cuCtxRecordEvent(CUcontext, CUevent), cuCtxWaitEvent(CUcontext, CUevent);

static const int64_t kPromptlyNs = 20000000000; /* for a busy machine; what hangs takes eleven days */

static volatile int told = -1, running, called, waiting;

static void callback(CUstream stream, CUresult result, void *unused) {
  (void)stream, (void)unused;
  told = result;
}

static void never(void *unused) {
  (void)unused;
  called = 1;
}

static void slow(void *unused) {
  (void)unused;
  running = 1;
  usleep(200000);
  running = 2;
}

static void *wait_for_it(void *context) {
  OK(cuCtxSetCurrent(context));
  waiting = 1;
  CUresult result = cuCtxSynchronize();
  return (void *)(intptr_t)result;
}

static void use_anew(void) {
  CUcontext context;
  CUdeviceptr counter;
  uint32_t value;
  size_t free_bytes, total;
  CUfunction f = kernel(open_device(&context), "emu_increment");
  OK(cuMemGetInfo_v2(&free_bytes, &total));
  CHECK(total - free_bytes == (size_t)64 << 20); /* nothing is left of what was given up */
  OK(cuMemAlloc_v2(&counter, 4));
  OK(cuMemsetD8_v2(counter, 0, 4));
  void *parameters[] = {&counter};
  OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
  OK(cuMemcpyDtoH_v2(&value, counter, 4));
  CHECK(value == 1);
  OK(cuCtxDestroy_v2(context));
}

static int context_mode(void) {
  CUcontext context;
  CUdeviceptr flag;
  CUstream second;
  pthread_t thread;
  void *seen;
  CUfunction f = kernel(open_device(&context), "fikit_spin");
  OK(cuMemAlloc_v2(&flag, 1 << 20));
  OK(cuStreamCreate(&second, 1));
  spin(f, 1000, NULL);
  OK(cuStreamAddCallback(NULL, callback, NULL, 0));
  OK(cuLaunchHostFunc(NULL, never, NULL));
  OK(cuStreamWaitValue32_v2(second, flag, 12345, 0));
  CHECK(pthread_create(&thread, NULL, wait_for_it, context) == 0);
  while (!waiting) usleep(1000);
  usleep(100000); /* so that it really waits, except on a machine without any time for it: 201 then */
  const int64_t begin = now_ns();
  OK(cuCtxDestroy_v2(context));
  CHECK(now_ns() - begin < kPromptlyNs);
  CHECK(told == 709 && !called); /* before the destruction is over: the program may free their data now */
  CHECK(pthread_join(thread, &seen) == 0 && ((intptr_t)seen == 709 || (intptr_t)seen == 201));
  use_anew();
  return 0;
}

static int primary_mode(void) {
  for (int reset = 0; reset < 2; ++reset) {
    CUcontext context;
    CUmodule module;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoadData(&module, kPtx));
    spin(kernel(module, "fikit_spin"), 1000, NULL);
    const int64_t begin = now_ns();
    OK(reset ? cuDevicePrimaryCtxReset_v2(0) : cuDevicePrimaryCtxRelease_v2(0));
    CHECK(now_ns() - begin < kPromptlyNs);
    OK(cuCtxSetCurrent(NULL));
  }
  use_anew();
  return 0;
}

static int stream_mode(void) {
  CUcontext context;
  CUstream stream;
  CUdeviceptr memory;
  CUfunction f = kernel(open_device(&context), "fikit_spin");
  OK(cuStreamCreate(&stream, 1));
  OK(cuMemAllocAsync(&memory, 1 << 20, stream));
  spin(f, 1000, stream);
  OK(cuMemFreeAsync(memory, stream));
  const int64_t begin = now_ns();
  OK(cuStreamDestroy_v2(stream));
  OK(cuCtxDestroy_v2(context));
  CHECK(now_ns() - begin < kPromptlyNs);
  use_anew();
  return 0;
}

static int running_mode(void) {
  CUcontext context;
  open_device(&context);
  OK(cuLaunchHostFunc(NULL, slow, NULL));
  while (running == 0) usleep(1000);
  OK(cuCtxDestroy_v2(context));
  CHECK(running == 2);
  return 0;
}

enum { ROUNDS = 40000 };

static struct {
  CUcontext context;
  CUfunction increment;
  CUdeviceptr counter;
  volatile int over;
} shared;

static void *come_and_go(void *unused) {
  void *parameters[] = {&shared.counter};
  OK(cuCtxSetCurrent(shared.context));
  for (int i = 0; i < ROUNDS; i++) {
    CUstream streams[4];
    for (int each = 0; each < 4; each++) OK(cuStreamCreate(&streams[each], 1));
    OK(cuLaunchKernel(shared.increment, 1, 1, 1, 1, 1, 1, 0, streams[i % 4], parameters, NULL));
    for (int each = 0; each < 4; each++) OK(cuStreamDestroy_v2(streams[each]));
  }
  shared.over = 1;
  return unused;
}

static int streams_mode(void) {
  pthread_t thread;
  CUevent event;
  uint32_t value;
  shared.increment = kernel(open_device(&shared.context), "emu_increment");
  OK(cuMemAlloc_v2(&shared.counter, 4));
  OK(cuMemsetD8_v2(shared.counter, 0, 4));
  OK(cuEventCreate(&event, 2));
  CHECK(pthread_create(&thread, NULL, come_and_go, NULL) == 0);
  while (!shared.over) {
    OK(cuCtxRecordEvent(shared.context, event));
    OK(cuCtxWaitEvent(shared.context, event));
  }
  CHECK(pthread_join(thread, NULL) == 0);
  OK(cuCtxRecordEvent(shared.context, event)); /* behind what streams that are gone have left, too */
  OK(cuEventSynchronize(event));
  OK(cuMemcpyDtoH_v2(&value, shared.counter, 4));
  CHECK(value == ROUNDS);
  OK(cuCtxDestroy_v2(shared.context));
  return 0;
}

static int exit_mode(void) {
  CUcontext context;
  spin(kernel(open_device(&context), "fikit_spin"), 1000, NULL);
  puts("leaving");
  return 0;
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "context") == 0) return context_mode();
  if (strcmp(mode, "primary") == 0) return primary_mode();
  if (strcmp(mode, "stream") == 0) return stream_mode();
  if (strcmp(mode, "running") == 0) return running_mode();
  if (strcmp(mode, "streams") == 0) return streams_mode();
  if (strcmp(mode, "exit") == 0) return exit_mode();
  return 2;
}
