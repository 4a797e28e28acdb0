/* For tests that count: attaches, launches COUNT times KERNELS kernels, copies as often, and says how much memory is resident. */
#include "shim_hostile.h"

#define NOINLINE __attribute__((noinline, noclone))

/* By name, valgrind counts what happens in here. */
NOINLINE void launch_many(unsigned count);
NOINLINE void launch_many(unsigned count) {
  for (unsigned i = 0; i < count; i++)
    CHECK(launch(1));
}

/* The same for copies. */
NOINLINE void copy_many(unsigned count);
NOINLINE void copy_many(unsigned count) {
  for (unsigned i = 0; i < count; i++)
    CHECK(cuMemcpyHtoDAsync_v2((void *)0x1000, "", 1, NULL));
}

static long resident_kib(void) {
  long kib = -1;
  FILE *status = fopen("/proc/self/status", "r");
  for (char line[256]; status && fgets(line, sizeof line, status);)
    if (sscanf(line, "VmRSS: %ld", &kib) == 1)
      break;
  if (status)
    fclose(status);
  return kib;
}

int main(int argc, char **argv) {
  unsigned count = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1;
  unsigned kernels = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
  start();
  for (unsigned i = 1; i <= kernels; i++) {
    CHECK(launch(i));
    if (i % 64 == 0) {
      CHECK(cuCtxSynchronize());
      nap(1000); /* fikitd reads what describes them */
    }
  }
  CHECK(cuCtxSynchronize());
  launch_many(count);
  CHECK(cuCtxSynchronize());
  copy_many(count);
  printf("%ld\n", resident_kib());
  return 0;
}
