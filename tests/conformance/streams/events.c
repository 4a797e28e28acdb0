/* Events, copies, host functions: when things happen. */
#include "../conformance.h"

static int g_called;
static void host_function(void *data) { g_called = *(int *)data; }

static void records(CUfunction f) {
  CUevent begin, end, untimed;
  CUstream a, b;
  float ms;
  OK(cuStreamCreate(&a, 1));
  OK(cuStreamCreate(&b, 1));
  OK(cuEventCreate(&begin, 0));
  OK(cuEventCreate(&end, 0));
  OK(cuEventCreate(&untimed, 2));
  see("query_unrecorded", cuEventQuery(end));
  see("elapsed_unrecorded", cuEventElapsedTime(&ms, begin, end));
  OK(cuEventRecord(begin, a));
  spin(f, LONG_NS, a);
  OK(cuEventRecord(untimed, a));
  OK(cuStreamWaitEvent(b, untimed, 0));
  spin(f, LONG_NS / 2, b);
  OK(cuEventRecord(end, b));
  OK(cuEventSynchronize(end));
  see("query_reached", cuEventQuery(end));
  see("elapsed", cuEventElapsedTime(&ms, begin, end));
  see("one_waited_for_the_other", ms * 1e6 > LONG_NS * 1.45);
  see("elapsed_untimed", cuEventElapsedTime(&ms, begin, untimed));
  see("work_before_it_is_done", cuStreamQuery(a));
}

static void effects(CUdeviceptr gate) {
  CUstream stream, other;
  CUdeviceptr memory = zeroed(64);
  uint32_t *pinned;
  int answer = 42;
  OK(cuStreamCreate(&stream, 1));
  OK(cuStreamCreate(&other, 1));
  OK(cuMemHostAlloc((void **)&pinned, 64, 0));
  memset(pinned, 0, 64);
  pinned[0] = 1;
  OK(cuStreamWaitValue32_v2(stream, gate, 2, 1));
  OK(cuMemcpyHtoDAsync_v2(memory, pinned, 4, stream));
  OK(cuMemsetD32Async(memory + 4, 9, 1, stream));
  OK(cuMemcpyDtoHAsync_v2(pinned + 1, memory, 8, stream));
  OK(cuLaunchHostFunc(stream, host_function, &answer));
  see("nothing_happened_yet", pinned[1] == 0 && g_called == 0);
  pinned[0] = 2; /* read when the copy runs, not when it was asked for */
  OK(cuStreamWriteValue32_v2(other, gate, 2, 0));
  OK(cuStreamSynchronize(stream));
  see("copied", pinned[1]);
  see("filled", pinned[2]);
  see("host_function", g_called);

  uint32_t value = 5, back = 0;
  OK(cuMemcpyHtoDAsync_v2(memory, &value, 4, stream));
  value = 6; /* pageable memory is the program's again when the call returns */
  OK(cuMemcpyDtoHAsync_v2(&back, memory, 4, stream));
  see("pageable_copy", back);
}

/* A memset is work of the device, also by the call without a stream: the host goes on. */
static void memset_behind_work(CUdeviceptr gate) {
  const CUdeviceptr memory = zeroed(4);
  CUstream other;
  OK(cuStreamCreate(&other, 1));
  OK(cuStreamWaitValue32_v2(NULL, gate, 3, 1));
  see("memset_behind_work", cuMemsetD8_v2(memory, 1, 4));
  see("memset_is_not_waited_for", cuStreamQuery(NULL));
  OK(cuStreamWriteValue32_v2(other, gate, 3, 0));
  OK(cuStreamSynchronize(NULL));
  see("memset_then", word(memory));
}

int main(void) {
  CUcontext context;
  CUmodule module = open_device(&context);
  CUdeviceptr gate = zeroed(4);
  records(kernel(module, "fikit_spin"));
  effects(gate);
  memset_behind_work(gate);
  return 0;
}
