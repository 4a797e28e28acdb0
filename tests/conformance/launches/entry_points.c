/* Where the driver's functions are: whether asking gives what linking gives. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "../conformance.h"

enum { LEGACY = 1, PER_THREAD = 2 };

static void *asked(const char *name, int version, uint64_t flags) {
  void *found = NULL;
  OK(cuGetProcAddress(name, &found, version, flags));
  return found;
}

int main(void) {
  CUcontext context;
  const CUfunction f = kernel(open_device(&context), "emu_increment");
  OK(increment(f, zeroed(4), NULL));
  OK(cuCtxSynchronize());
  see("launch", asked("cuLaunchKernel", 12000, LEGACY) == (void *)cuLaunchKernel);
  see("launch_per_thread", asked("cuLaunchKernel", 12000, PER_THREAD) == (void *)cuLaunchKernel_ptsz);
  see("newest_form", asked("cuMemAlloc", 12000, LEGACY) == (void *)cuMemAlloc_v2);
  see("graph_launch", asked("cuGraphLaunch", 12000, LEGACY) == (void *)cuGraphLaunch);
  see("synchronize", asked("cuStreamSynchronize", 12000, LEGACY) == (void *)cuStreamSynchronize);
  see("by_name", dlsym(RTLD_DEFAULT, "cuLaunchKernel") == (void *)cuLaunchKernel);
  return 0;
}
