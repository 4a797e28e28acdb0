/*
 * What the shim's bench programs share: one process, the driver's own functions and the shim's, in turns, so that whatever
 * disturbs one disturbs the other.
 */
#ifndef FIKIT_SHIM_BENCH_PROGRAM_H
#define FIKIT_SHIM_BENCH_PROGRAM_H

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The first version of glibc for this processor, of which its dlsym is. */
#if defined(__aarch64__)
#define GLIBC_FIRST "GLIBC_2.17"
#else
#define GLIBC_FIRST "GLIBC_2.2.5"
#endif

typedef int launch_fn(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared_bytes, void *stream, void **params, void **extra);
typedef void *dlsym_fn(void *handle, const char *name);

/* A kernel that returns at once. The emulated GPU takes its duration from the parameter. */
static const char image[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry fikit_spin(.param .u64 ns)\n{\n  ret;\n}\n";

static inline void *must(void *found, const char *what) {
  if (found)
    return found;
  fprintf(stderr, "%s: couldn't find %s: %s\n", program_invocation_short_name, what, dlerror());
  exit(1);
}

/* The thread's own processor time: what others do meanwhile does not count. */
static inline int64_t own_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void check(int result, const char *call) {
  if (result == 0)
    return;
  fprintf(stderr, "%s: couldn't run %s: driver error %d\n", program_invocation_short_name, call, result);
  exit(1);
}

/* The loaded libcuda.so* that is not the shim: there is one as soon as the shim has passed a call on. */
static int find_driver(struct dl_phdr_info *object, size_t size, void *path) {
  (void)size;
  const char *slash = strrchr(object->dlpi_name, '/');
  if (!slash || strncmp(slash, "/libcuda.so", 11) != 0)
    return 0;
  *(const char **)path = object->dlpi_name;
  return 1;
}

/* The driver's own function; ends the program when that is what it has already, because no shim is preloaded. */
static inline void *direct(const char *name, const void *through_shim) {
  const char *path = NULL;
  void *libc = must(dlopen("libc.so.6", RTLD_LAZY), "libc.so.6");
  dlsym_fn *unhooked = (dlsym_fn *)must(dlvsym(libc, "dlsym", GLIBC_FIRST), "dlsym");
  dl_iterate_phdr(find_driver, &path);
  void *found = path ? must(unhooked(must(dlopen(path, RTLD_LAZY | RTLD_NOLOAD), path), name), name) : NULL;
  if (found && found != through_shim)
    return found;
  fprintf(stderr, "%s: the shim is not preloaded in front of a driver\n", program_invocation_short_name);
  exit(1);
}

static inline int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void print(const char *name, const double *samples, int count, const char *end) {
  printf("\"%s\": [", name);
  for (int i = 0; i < count; i++)
    printf("%s%.4f", i ? ", " : "", samples[i]);
  printf("]%s", end);
}

/* A driver function, found as programs find it: through the hooked dlsym. */
#define DRIVER(name, ...) int (*name)(__VA_ARGS__) = (int (*)(__VA_ARGS__))must(dlsym(library, #name), #name)

/* A context on the first GPU, its name, and fikit_spin. */
static inline void *open_device(void *library, char device[256]) {
  DRIVER(cuInit, unsigned);
  DRIVER(cuCtxCreate_v2, void **, unsigned, int);
  DRIVER(cuModuleLoadData, void **, const void *);
  DRIVER(cuModuleGetFunction, void **, void *, const char *);
  DRIVER(cuDeviceGetName, char *, int, int);
  void *context, *module, *kernel;
  check(cuInit(0), "cuInit");
  check(cuDeviceGetName(device, 256, 0), "cuDeviceGetName");
  check(cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate");
  check(cuModuleLoadData(&module, image), "cuModuleLoadData");
  check(cuModuleGetFunction(&kernel, module, "fikit_spin"), "cuModuleGetFunction");
  return kernel;
}

#endif
