/*
 * What the emulated GPU costs its users. `python -m bench emulator` runs it; the driver comes from LD_LIBRARY_PATH.
 *
 * usage: fikit-emulator-bench launch ROUNDS LAUNCHES   JSON: the device's name, ns per cuLaunchKernel in each round
 *        fikit-emulator-bench idle MS                  CPU time in us that a context without work took in MS ms
 *        fikit-emulator-bench work LAUNCHES US         on every visible device so many kernels, one after the other
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int launch_fn(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared_bytes, void *stream, void **params, void **extra);

static const char image[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
                            ".visible .entry fikit_spin(.param .u64 ns)\n{\n  ret;\n}\n";

static void *library;
static launch_fn *launch;
static int (*synchronize)(void);

static void *find(const char *name) {
  void *found = dlsym(library, name);
  if (found)
    return found;
  fprintf(stderr, "fikit-emulator-bench: couldn't find %s: %s\n", name, dlerror());
  exit(1);
}

static void check(int result, const char *call) {
  if (result == 0)
    return;
  fprintf(stderr, "fikit-emulator-bench: couldn't run %s: driver error %d\n", call, result);
  exit(1);
}

static void load(void) {
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    fprintf(stderr, "fikit-emulator-bench: couldn't load the driver: %s\n", dlerror());
    exit(1);
  }
  int (*init)(unsigned) = (int (*)(unsigned))find("cuInit");
  launch = (launch_fn *)find("cuLaunchKernel");
  synchronize = (int (*)(void))find("cuCtxSynchronize");
  check(init(0), "cuInit");
}

/* The spin kernel in a new current context on this device. */
static void *open_device(int device) {
  int (*create)(void **, unsigned, int) = (int (*)(void **, unsigned, int))find("cuCtxCreate_v2");
  int (*load_module)(void **, const void *) = (int (*)(void **, const void *))find("cuModuleLoadData");
  int (*get)(void **, void *, const char *) = (int (*)(void **, void *, const char *))find("cuModuleGetFunction");
  void *context, *module, *function;
  check(create(&context, 0, device), "cuCtxCreate");
  check(load_module(&module, image), "cuModuleLoadData");
  check(get(&function, module, "fikit_spin"), "cuModuleGetFunction");
  return function;
}

static void spin(void *function, uint64_t ns) {
  void *parameters[] = {&ns};
  check(launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), "cuLaunchKernel");
}

static int64_t now_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Kernels of 100 us: a round's launches are all queued before the first one ends, as those of a busy program are. */
static void measure_launches(int rounds, int launches) {
  int (*name_of)(char *, int, int) = (int (*)(char *, int, int))find("cuDeviceGetName");
  char name[128];
  void *function = open_device(0);
  check(name_of(name, sizeof name, 0), "cuDeviceGetName");
  printf("{\"device\": \"%s\", \"launch_ns\": [", name);
  for (int round = -rounds / 10; round < rounds; round++) { /* the first tenth warms up */
    const int64_t begin = now_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < launches; i++)
      spin(function, 100000);
    const int64_t end = now_ns(CLOCK_MONOTONIC);
    check(synchronize(), "cuCtxSynchronize");
    if (round >= 0)
      printf("%s%.1f", round > 0 ? ", " : "", (double)(end - begin) / launches);
  }
  puts("]}");
}

static void measure_idle(int ms) {
  spin(open_device(0), 1000);
  check(synchronize(), "cuCtxSynchronize");
  const int64_t begin = now_ns(CLOCK_PROCESS_CPUTIME_ID);
  usleep((useconds_t)ms * 1000);
  printf("%.1f\n", (double)(now_ns(CLOCK_PROCESS_CPUTIME_ID) - begin) / 1e3);
}

static void work(int launches, uint64_t us) {
  int (*count_of)(int *) = (int (*)(int *))find("cuDeviceGetCount");
  int count;
  check(count_of(&count), "cuDeviceGetCount");
  for (int device = 0; device < count; device++) {
    void *function = open_device(device);
    for (int i = 0; i < launches; i++)
      spin(function, us * 1000);
    check(synchronize(), "cuCtxSynchronize");
  }
}

static int number(const char *text) {
  char *end;
  const long value = strtol(text, &end, 10);
  if (end != text && *end == '\0' && value > 0 && value <= 1000000)
    return (int)value;
  fprintf(stderr, "fikit-emulator-bench: \"%s\" is no number from 1 to 1000000\n", text);
  exit(2);
}

int main(int argc, char **argv) {
  const char *mode = argc > 2 ? argv[1] : "";
  load();
  if (strcmp(mode, "launch") == 0 && argc == 4)
    measure_launches(number(argv[2]), number(argv[3]));
  else if (strcmp(mode, "idle") == 0)
    measure_idle(number(argv[2]));
  else if (strcmp(mode, "work") == 0 && argc == 4)
    work(number(argv[2]), (uint64_t)number(argv[3]));
  else
    return 2;
  return 0;
}
