/* What a program sees of injected faults. Usage: emu_faults MODE [NUMBER]
 *   sticky CODE     the third launch of emu_increment shall fail with CODE; checks that and all that follows from it
 *   event CODE      the first launch shall fail with CODE, an event is waited for
 *   callbacks CODE  the first launch shall fail; a callback learns it, a host function is not called
 *   many            two contexts, only one of which shall die of its second launch
 *   launch COUNT    so many launches of emu_increment; prints the results of the launches and of the last sync
 *   alloc COUNT     so many allocations; prints their results
 *   spin US COUNT   so many kernels, each waited for; prints how many ms each took, as it goes
 *   beat US         kernels of US microseconds, each waited for, with pauses of 1 ms; prints "running" after the first, and the
 *                   error with which one ends; then waits for its stdin to close
 *   say             launches emu_increment and waits for it, for each line on stdin; prints the result of the wait
 *   survive         a lost device: context dies, and after a line on stdin a new one works */
#include <unistd.h>

#include "emu_api.h"

CUresult cuStreamAddCallback(CUstream, void (*)(CUstream, CUresult, void *), void *, unsigned);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice);

static CUresult increment(CUfunction f, CUdeviceptr counter, CUstream stream) {
  void *parameters[] = {&counter};
  return cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
}

static int sticky_mode(CUresult code) {
  CUcontext context, again;
  CUfunction f;
  CUdeviceptr counter, other;
  CUmodule module;
  CUevent event;
  CUstream stream;
  size_t free_bytes, total;
  uint32_t value = 77;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  OK(cuModuleLoadData(&module, kPtx));
  f = kernel(module, "emu_increment");
  OK(cuStreamCreate(&stream, 1));
  OK(cuEventCreate(&event, 0));
  OK(cuMemHostAlloc((void **)&counter, 4, 0));
  *(uint32_t *)counter = 0;
  OK(cuMemAlloc_v2(&other, 4));
  spin(kernel(module, "fikit_spin"), 300000000, stream); /* so that all is queued before the failure */
  OK(increment(f, counter, stream));
  OK(increment(f, counter, stream));
  OK(increment(f, counter, stream)); /* this one fails, and a failing launch is accepted like any other */
  OK(increment(f, counter, stream));
  OK(increment(f, counter, NULL));
  CHECK(cuStreamSynchronize(stream) == code);
  CHECK(*(uint32_t *)counter <= 3); /* the two before it, and the other stream's if that was earlier */
  CHECK(cuStreamSynchronize(stream) == code);
  CHECK(cuStreamSynchronize(NULL) == code);
  CHECK(cuCtxSynchronize() == code);
  CHECK(cuStreamQuery(stream) == code);
  CHECK(cuEventRecord(event, stream) == code);
  CHECK(cuEventQuery(event) == code);
  CHECK(cuEventSynchronize(event) == code);
  CHECK(increment(f, counter, NULL) == code);
  CHECK(cuMemAlloc_v2(&other, 4) == code);
  CHECK(cuMemFree_v2(other) == code);
  CHECK(cuMemcpyDtoH_v2(&value, other, 4) == code && value == 77);
  CHECK(cuMemGetInfo_v2(&free_bytes, &total) == code);
  CHECK(cuModuleLoadData(&module, kPtx) == code);
  CHECK(cuStreamCreate(&stream, 0) == code);
  OK(cuCtxGetCurrent(&again));
  CHECK(again == context);
  OK(cuEventDestroy_v2(event));
  OK(cuDevicePrimaryCtxReset_v2(0)); /* the way out */
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  OK(cuMemGetInfo_v2(&free_bytes, &total));
  CHECK(total - free_bytes == (size_t)64 << 20); /* the dead context's memory is back */
  OK(cuModuleLoadData(&module, kPtx));
  OK(cuMemAlloc_v2(&counter, 4));
  OK(cuMemsetD8_v2(counter, 0, 4));
  OK(increment(kernel(module, "emu_increment"), counter, NULL));
  OK(cuMemcpyDtoH_v2(&value, counter, 4));
  CHECK(value == 1);
  return 0;
}

static int event_mode(CUresult code) {
  CUcontext context;
  CUfunction f = kernel(open_device(&context), "emu_increment");
  CUdeviceptr counter;
  CUevent event;
  OK(cuMemAlloc_v2(&counter, 4));
  OK(cuEventCreate(&event, 0));
  OK(increment(f, counter, NULL));
  CUresult recorded = cuEventRecord(event, NULL); /* the fault may have been noticed already */
  CHECK(recorded == 0 || recorded == code);
  CHECK(cuEventSynchronize(event) == code);
  OK(cuCtxDestroy_v2(context));
  return 0;
}

static volatile int called, status = -1;

static void host_function(void *unused) {
  (void)unused;
  called = 1;
}

static void callback(CUstream stream, CUresult result, void *unused) {
  (void)stream, (void)unused;
  status = result;
}

static int callbacks_mode(CUresult code) {
  CUcontext context;
  CUmodule module = open_device(&context);
  CUfunction f = kernel(module, "emu_increment");
  CUdeviceptr counter;
  OK(cuMemAlloc_v2(&counter, 4));
  spin(kernel(module, "fikit_spin"), 300000000, NULL); /* so that all is queued before the failure */
  OK(increment(f, counter, NULL));
  OK(cuLaunchHostFunc(NULL, host_function, NULL));
  OK(cuStreamAddCallback(NULL, callback, NULL, 0));
  CHECK(cuCtxSynchronize() == code);
  for (int i = 0; status < 0 && i < 10000; ++i) usleep(1000);
  CHECK(status == code);
  CHECK(!called);
  return 0;
}

static int many_mode(void) {
  CUcontext first, second;
  CUmodule one = open_device(&first), two;
  CUdeviceptr a, b;
  uint32_t value;
  OK(cuMemAlloc_v2(&a, 4));
  OK(cuCtxCreate_v2(&second, 0, 0));
  OK(cuModuleLoadData(&two, kPtx));
  OK(cuMemAlloc_v2(&b, 4));
  OK(cuMemsetD8_v2(b, 0, 4));
  OK(increment(kernel(two, "emu_increment"), b, NULL));
  OK(cuCtxSetCurrent(first));
  OK(increment(kernel(one, "emu_increment"), a, NULL));
  CHECK(cuCtxSynchronize() == 700);
  OK(cuCtxSetCurrent(second));
  OK(increment(kernel(two, "emu_increment"), b, NULL));
  OK(cuMemcpyDtoH_v2(&value, b, 4));
  CHECK(value == 2);
  OK(cuCtxDestroy_v2(first));
  return 0;
}

static int launch_mode(int count) {
  CUcontext context;
  CUfunction f = kernel(open_device(&context), "emu_increment");
  CUdeviceptr counter;
  OK(cuMemAlloc_v2(&counter, 4));
  for (int i = 0; i < count; ++i) printf("%d ", increment(f, counter, NULL));
  printf("%d\n", cuCtxSynchronize());
  return 0;
}

static int alloc_mode(int count) {
  CUcontext context;
  CUdeviceptr memory;
  open_device(&context);
  for (int i = 0; i < count; ++i) printf("%d ", cuMemAlloc_v2(&memory, 1 << 20));
  puts("");
  return 0;
}

static int spin_mode(uint64_t us, int count) {
  CUcontext context;
  CUfunction f = kernel(open_device(&context), "fikit_spin");
  for (int i = 0; i < count; ++i) {
    int64_t start = now_ns();
    spin(f, us * 1000, NULL);
    OK(cuCtxSynchronize());
    printf("%.3f\n", (double)(now_ns() - start) / 1e6);
    fflush(stdout);
  }
  return 0;
}

static int beat_mode(uint64_t us) {
  CUcontext context;
  CUfunction f = kernel(open_device(&context), "fikit_spin");
  for (int i = 0;; ++i) {
    uint64_t ns = us * 1000;
    void *parameters[] = {&ns};
    CUresult result = cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL);
    if (result == 0) result = cuCtxSynchronize();
    if (i == 0 || result != 0) printf(result == 0 ? "running\n" : "%d\n", result);
    fflush(stdout);
    if (result != 0) break;
    usleep(1000);
  }
  getchar();
  return 0;
}

static int say_mode(void) {
  CUcontext context;
  CUfunction f = kernel(open_device(&context), "emu_increment");
  CUdeviceptr counter;
  OK(cuMemAlloc_v2(&counter, 4));
  puts("ready");
  fflush(stdout);
  while (getchar() == '\n') {
    CUresult result = increment(f, counter, NULL);
    if (result == 0) result = cuCtxSynchronize();
    printf("%d\n", result);
    fflush(stdout);
  }
  return 0;
}

static int survive_mode(void) {
  CUcontext context, fresh;
  CUmodule module = open_device(&context);
  spin(kernel(module, "fikit_spin"), 600000000000, NULL);
  puts("running");
  fflush(stdout);
  CHECK(cuCtxSynchronize() == 46);
  CHECK(cuCtxCreate_v2(&fresh, 0, 0) == 46);
  puts("lost");
  fflush(stdout);
  getchar();
  CHECK(cuCtxSynchronize() == 46); /* a context that died stays dead */
  OK(cuCtxDestroy_v2(context));
  OK(cuCtxCreate_v2(&fresh, 0, 0));
  OK(cuModuleLoadData(&module, kPtx));
  spin(kernel(module, "fikit_spin"), 1000, NULL);
  OK(cuCtxSynchronize());
  puts("back");
  return 0;
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  const int number = argc > 2 ? atoi(argv[2]) : 0;
  if (strcmp(mode, "sticky") == 0) return sticky_mode(number);
  if (strcmp(mode, "event") == 0) return event_mode(number);
  if (strcmp(mode, "callbacks") == 0) return callbacks_mode(number);
  if (strcmp(mode, "many") == 0) return many_mode();
  if (strcmp(mode, "launch") == 0) return launch_mode(number);
  if (strcmp(mode, "alloc") == 0) return alloc_mode(number);
  if (strcmp(mode, "spin") == 0) return spin_mode((uint64_t)number, argc > 3 ? atoi(argv[3]) : 1);
  if (strcmp(mode, "beat") == 0) return beat_mode((uint64_t)number);
  if (strcmp(mode, "say") == 0) return say_mode();
  if (strcmp(mode, "survive") == 0) return survive_mode();
  return 2;
}
