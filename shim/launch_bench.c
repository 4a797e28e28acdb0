/*
 * What the shim costs a launch: ns per cuLaunchKernel by the driver's own pointer and by the shim's, in one process, in
 * turns, so that whatever disturbs one disturbs the other. Prints one JSON object. `python -m bench launch` runs it.
 *
 * usage: fikit-launch-bench ROUNDS LAUNCHES, with the shim preloaded
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int launch_fn(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared_bytes, void *stream, void **params, void **extra);
typedef void *dlsym_fn(void *handle, const char *name);

/* A kernel that returns at once. The emulated GPU takes its duration from the parameter. */
static const char image[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry fikit_spin(.param .u64 ns)\n{\n  ret;\n}\n";

static void *must(void *found, const char *what) {
  if (found)
    return found;
  fprintf(stderr, "fikit-launch-bench: couldn't find %s: %s\n", what, dlerror());
  exit(1);
}

static void check(int result, const char *call) {
  if (result == 0)
    return;
  fprintf(stderr, "fikit-launch-bench: couldn't run %s: driver error %d\n", call, result);
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

static launch_fn *direct_launch(void) {
  const char *path = NULL;
  void *libc = must(dlopen("libc.so.6", RTLD_LAZY), "libc.so.6");
  dlsym_fn *unhooked = (dlsym_fn *)must(dlvsym(libc, "dlsym", "GLIBC_2.2.5"), "dlsym");
  dl_iterate_phdr(find_driver, &path);
  if (!path) {
    fprintf(stderr, "fikit-launch-bench: no driver is loaded besides the shim\n");
    exit(1);
  }
  return (launch_fn *)must(unhooked(must(dlopen(path, RTLD_LAZY | RTLD_NOLOAD), path), "cuLaunchKernel"), "cuLaunchKernel");
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Mean ns of one launch; the work is waited for outside the measured time. */
static double measure(launch_fn *launch, void *kernel, int launches, int (*synchronize)(void)) {
  uint64_t duration_ns = 0;
  void *params[] = {&duration_ns};
  int64_t start_ns = now_ns();
  for (int i = 0; i < launches; i++)
    check(launch(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL), "cuLaunchKernel");
  int64_t end_ns = now_ns();
  check(synchronize(), "cuCtxSynchronize");
  return (double)(end_ns - start_ns) / launches;
}

static void print(const char *name, const double *samples, int count, const char *end) {
  printf("\"%s\": [", name);
  for (int i = 0; i < count; i++)
    printf("%s%.1f", i ? ", " : "", samples[i]);
  printf("]%s", end);
}

/* A driver function, found as programs find it: through the hooked dlsym. */
#define DRIVER(name, ...) int (*name)(__VA_ARGS__) = (int (*)(__VA_ARGS__))must(dlsym(library, #name), #name)

int main(int argc, char **argv) {
  int rounds = argc == 3 ? (int)strtol(argv[1], NULL, 10) : 0, launches = argc == 3 ? (int)strtol(argv[2], NULL, 10) : 0;
  if (rounds < 1 || launches < 1) {
    fprintf(stderr, "usage: fikit-launch-bench ROUNDS LAUNCHES\n");
    return 2;
  }
  void *library = must(dlopen("libcuda.so.1", RTLD_NOW), "libcuda.so.1");
  DRIVER(cuInit, unsigned);
  DRIVER(cuCtxCreate_v2, void **, unsigned, int);
  DRIVER(cuCtxSynchronize, void);
  DRIVER(cuModuleLoadData, void **, const void *);
  DRIVER(cuModuleGetFunction, void **, void *, const char *);
  DRIVER(cuDeviceGetName, char *, int, int);
  launch_fn *cuLaunchKernel = (launch_fn *)must(dlsym(library, "cuLaunchKernel"), "cuLaunchKernel");
  char device[256] = "";
  void *context, *module, *kernel;
  check(cuInit(0), "cuInit");
  check(cuDeviceGetName(device, sizeof device, 0), "cuDeviceGetName");
  check(cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate");
  check(cuModuleLoadData(&module, image), "cuModuleLoadData");
  check(cuModuleGetFunction(&kernel, module, "fikit_spin"), "cuModuleGetFunction");
  launch_fn *direct = direct_launch();
  if (direct == cuLaunchKernel) {
    fprintf(stderr, "fikit-launch-bench: the shim is not preloaded: both pointers are the driver's\n");
    return 1;
  }
  double *by_driver = must(calloc(2 * (size_t)rounds, sizeof *by_driver), "memory");
  double *by_shim = by_driver + rounds;
  for (int i = -rounds / 10 - 1; i < rounds; i++) { /* the first tenth warms up */
    double first = measure(i & 1 ? direct : cuLaunchKernel, kernel, launches, cuCtxSynchronize);
    double second = measure(i & 1 ? cuLaunchKernel : direct, kernel, launches, cuCtxSynchronize);
    if (i >= 0) {
      by_driver[i] = i & 1 ? first : second;
      by_shim[i] = i & 1 ? second : first;
    }
  }
  printf("{\"device\": \"%s\", \"launches_per_round\": %d, ", device, launches);
  print("direct_ns", by_driver, rounds, ", ");
  print("shim_ns", by_shim, rounds, "}\n");
  free(by_driver);
  return 0;
}
