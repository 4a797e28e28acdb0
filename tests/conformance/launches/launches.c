/* Launches: every form, both kinds of handle, and what cannot be launched. */
#include <pthread.h>

#include "../conformance.h"

static CUcontext g_context;
static CUfunction g_increment;
static CUdeviceptr g_counters;

/* Each thread in its own default stream. */
static void *launch_many(void *which) {
  const CUdeviceptr counter = g_counters + 4 * (uintptr_t)which;
  void *parameters[] = {(void *)&counter};
  OK(cuCtxSetCurrent(g_context));
  for (int i = 0; i < 500; ++i) OK(cuLaunchKernel_ptsz(g_increment, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
  OK(cuStreamSynchronize((CUstream)2));
  return NULL;
}

int main(void) {
  CUmodule module = open_device(&g_context);
  CUlibrary library;
  CUkernel handle;
  CUfunction found;
  const char *name;
  CUdeviceptr counter = zeroed(4);
  g_increment = kernel(module, "emu_increment");
  OK(cuLibraryLoadData(&library, kPtx, NULL, NULL, 0, NULL, NULL, 0));
  see("kernel_of_library", cuLibraryGetKernel(&handle, library, "emu_increment"));
  see("absent_from_library", cuLibraryGetKernel(&found, library, "nothing"));
  see("absent_from_module", cuModuleGetFunction(&found, module, "not_a_kernel"));
  OK(cuFuncGetName(&name, g_increment));
  see("name", strcmp(name, "emu_increment") == 0);
  OK(cuKernelGetFunction(&found, handle));
  OK(cuFuncGetName(&name, found));
  see("name_by_kernel", strcmp(name, "emu_increment") == 0);
  void *parameters[] = {&counter};
  size_t size = sizeof counter;
  void *packed[] = {(void *)1, &counter, (void *)2, &size, NULL};
  const CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0};
  see("launch", cuLaunchKernel(g_increment, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
  see("packed", cuLaunchKernel(g_increment, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, packed));
  see("kernel_handle", cuLaunchKernel(handle, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
  see("extended", cuLaunchKernelEx(&config, g_increment, parameters, NULL));
  see("extended_kernel_handle_packed", cuLaunchKernelEx(&config, handle, NULL, packed));
  see("per_thread_stream", cuLaunchKernel_ptsz(g_increment, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
  see("empty_grid", cuLaunchKernel(g_increment, 0, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
  see("oversized_block", cuLaunchKernel(g_increment, 1, 1, 1, 2048, 1, 1, 0, NULL, parameters, NULL));
  OK(cuCtxSynchronize());
  see("counter", word(counter));

  CUfunction check = kernel(module, "emu_check_order");
  CUdeviceptr order = zeroed(4);
  for (uint32_t i = 0; i < 3000; ++i) { /* more than any queue holds: a launch waits, nothing is lost */
    void *arguments[] = {&order, &i};
    OK(cuLaunchKernel(check, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
  }
  see("in_order", word(order));

  pthread_t threads[4];
  uint32_t sum = 0;
  g_counters = zeroed(16);
  for (uintptr_t i = 0; i < 4; ++i) CHECK(pthread_create(&threads[i], NULL, launch_many, (void *)i) == 0);
  for (int i = 0; i < 4; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < 4; ++i) sum += word(g_counters + 4 * (CUdeviceptr)i);
  see("of_four_threads", sum);
  return 0;
}
