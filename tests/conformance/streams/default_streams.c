/* The two default streams: who waits for whom, by what a word holds when the device comes to it. */
#include <pthread.h>

#include "../conformance.h"

CUresult cuStreamSynchronize_ptsz(CUstream), cuStreamQuery_ptsz(CUstream), cuMemcpyDtoH_v2_ptds(void *, CUdeviceptr, size_t);
CUresult cuMemsetD32Async_ptsz(CUdeviceptr, unsigned, size_t, CUstream), cuStreamGetFlags(CUstream, unsigned *);
CUresult cuStreamGetId(CUstream, unsigned long long *), cuStreamGetCtx(CUstream, CUcontext *), cuStreamGetPriority(CUstream, int *);
CUresult cuStreamCreateWithPriority(CUstream *, unsigned, int), cuCtxGetStreamPriorityRange(int *, int *);

#define LEGACY ((CUstream)1)
#define PER_THREAD ((CUstream)2)

static CUcontext g_context;
static CUfunction g_spin, g_increment;

static uint32_t per_thread_word(CUdeviceptr memory) {
  uint32_t value;
  OK(cuMemcpyDtoH_v2_ptds(&value, memory, 4));
  return value;
}

/* A second thread's per-thread stream does not wait for the first one's. */
static void *other_thread(void *query) {
  OK(cuCtxSetCurrent(g_context));
  spin(g_spin, 1000, PER_THREAD);
  OK(cuStreamSynchronize(PER_THREAD));
  *(CUresult *)query = cuStreamQuery(PER_THREAD);
  return NULL;
}

int main(void) {
  CUmodule module = open_device(&g_context);
  g_spin = kernel(module, "fikit_spin");
  g_increment = kernel(module, "emu_increment");
  CUdeviceptr memory = zeroed(64);
  CUstream blocking, free_running, urgent;
  CUresult query;
  pthread_t thread;
  OK(cuStreamCreate(&blocking, 0));
  OK(cuStreamCreate(&free_running, 1));

  /* The word is set behind a long kernel: what comes to it too early adds to nothing and is overwritten. */
  spin(g_spin, LONG_NS, blocking);
  OK(cuMemsetD32Async(memory, 10, 1, blocking));
  OK(increment(g_increment, memory, NULL));
  see("legacy_after_blocking", word(memory));

  spin(g_spin, LONG_NS, LEGACY);
  OK(cuMemsetD32Async(memory, 20, 1, LEGACY));
  OK(increment(g_increment, memory, blocking));
  OK(cuStreamSynchronize(blocking));
  see("blocking_after_legacy", word(memory));

  spin(g_spin, LONG_NS, PER_THREAD);
  OK(cuMemsetD32Async_ptsz(memory, 30, 1, NULL));
  OK(increment(g_increment, memory, LEGACY));
  see("legacy_after_per_thread", word(memory));

  spin(g_spin, LONG_NS, LEGACY);
  OK(cuMemsetD32Async(memory, 40, 1, LEGACY));
  OK(increment(g_increment, memory, PER_THREAD));
  see("per_thread_after_legacy", per_thread_word(memory));

  spin(g_spin, LONG_NS, free_running);
  see("non_blocking_is_busy", cuStreamQuery(free_running));
  OK(cuStreamSynchronize(LEGACY));
  see("legacy_does_not_wait_for_it", cuStreamQuery(free_running));
  OK(cuStreamSynchronize_ptsz(NULL));
  see("per_thread_does_not_either", cuStreamQuery(free_running));
  see("per_thread_is_idle", cuStreamQuery_ptsz(NULL));
  OK(cuStreamSynchronize(free_running));

  spin(g_spin, LONG_NS, PER_THREAD);
  OK(pthread_create(&thread, NULL, other_thread, &query) != 0);
  OK(pthread_join(thread, NULL) != 0);
  see("another_threads_stream", query);
  OK(cuCtxSynchronize());
  see("context_waits_for_all", cuStreamQuery(PER_THREAD));

  unsigned flags = 9;
  unsigned long long first = 0, second = 0;
  CUcontext context;
  int least, greatest, priority = 99;
  OK(cuStreamGetFlags(blocking, &flags));
  see("blocking_flags", flags);
  OK(cuStreamGetFlags(free_running, &flags));
  see("non_blocking_flags", flags);
  OK(cuStreamGetId(blocking, &first));
  OK(cuStreamGetId(free_running, &second));
  see("ids_differ", first != second);
  OK(cuStreamGetCtx(blocking, &context));
  see("context", context == g_context);
  OK(cuStreamGetCtx(NULL, &context));
  see("context_of_default", context == g_context);
  OK(cuCtxGetStreamPriorityRange(&least, &greatest));
  see("least_priority", least);
  see("greatest_is_not_greater", greatest <= least);
  OK(cuStreamCreateWithPriority(&urgent, 1, greatest - 100));
  OK(cuStreamGetPriority(urgent, &priority));
  see("priority_is_clamped", priority == greatest);
  see("unknown_flags", cuStreamCreate(&urgent, 64));
  return 0;
}
