/* A CUDA program: launches fikit_spin LAUNCHES times, each NS long, with a pause of NS after each tenth and a
 * synchronisation, and prints "done LAUNCHES". With `hold`, it then waits for a byte on standard input and does it again.
 * With `quiet`, it neither pauses nor synchronises nor calls the driver again once it has launched: it waits for the byte. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
                          ".visible .entry fikit_spin(.param .u64 ns) { ret; }\n"
                          ".visible .entry other(.param .u64 ns) { ret; }\n";

typedef int (*call)();

static call find(void *library, const char *name) {
  call found = (call)(uintptr_t)dlsym(library, name);
  if (!found) {
    fprintf(stderr, "no %s\n", name);
    exit(2);
  }
  return found;
}

#define CHECK(expression)                                                                                              \
  do {                                                                                                                 \
    int error = (expression);                                                                                          \
    if (error) {                                                                                                       \
      fprintf(stderr, "%s: %d\n", #expression, error);                                                                 \
      exit(3);                                                                                                         \
    }                                                                                                                  \
  } while (0)

int main(int argc, char **argv) {
  const int launches = argc > 1 ? atoi(argv[1]) : 100;
  uint64_t ns = argc > 2 ? strtoull(argv[2], NULL, 10) : 100000;
  const int hold = argc > 3 && strcmp(argv[3], "hold") == 0;
  const int quiet = argc > 3 && strcmp(argv[3], "quiet") == 0;
  void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
  void *context, *module, *kernel;
  if (!cuda) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  CHECK(find(cuda, "cuInit")(0u));
  CHECK(find(cuda, "cuCtxCreate_v2")(&context, 0u, 0));
  CHECK(find(cuda, "cuModuleLoadData")(&module, ptx));
  CHECK(find(cuda, "cuModuleGetFunction")(&kernel, module, "fikit_spin"));
  const call launch = find(cuda, "cuLaunchKernel"), synchronize = find(cuda, "cuCtxSynchronize");
  for (int round = 0; round < 1 + hold; round++) {
    for (int i = 0; i < launches; i++) {
      void *parameters[] = {&ns};
      CHECK(launch(kernel, 1u, 1u, 1u, 32u, 1u, 1u, 0u, NULL, parameters, NULL));
      if (i % 10 == 9 && !quiet) {
        CHECK(synchronize());
        usleep((useconds_t)(ns / 1000));
      }
    }
    if (!quiet)
      CHECK(synchronize());
    printf("done %d\n", launches);
    fflush(stdout);
    if ((hold || quiet) && round == 0 && read(STDIN_FILENO, &(char){0}, 1) < 0)
      return 4;
  }
  return 0;
}
