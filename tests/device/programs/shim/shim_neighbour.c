/*
 * Another preloaded library that hooks dlsym, as memory limiters do: its own cuLaunchKernel counts and goes on to the
 * driver's. Says at the end how many launches it saw.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef int launch_fn(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
typedef void *dlsym_fn(void *, const char *);

static int launches;

static dlsym_fn *real_dlsym(void) {
  static dlsym_fn *found;
  if (!found)
    found = (dlsym_fn *)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  return found;
}

static int launch(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                  void *stream, void **params, void **extra) {
  static launch_fn *next;
  if (!next)
    next = (launch_fn *)real_dlsym()(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernel");
  launches++;
  return next(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}

void *dlsym(void *handle, const char *name) {
  return strcmp(name, "cuLaunchKernel") == 0 ? (void *)launch : real_dlsym()(handle, name);
}

__attribute__((destructor)) static void report(void) {
  printf("neighbour: %d launches\n", launches);
}
