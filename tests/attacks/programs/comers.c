/* Four processes at a time, of which each launches one kernel of 50 ms, waits for it and ends: nobody is there for long enough to be known. */
#include "attack.h"

#include <sys/wait.h>

enum { AT_A_TIME = 4 };

static int one(void) {
  CUcontext context;
  int64_t ns = 50 * MS;
  void *arguments[] = {&ns};
  OK(cuLaunchKernel(kernel(open_device(&context), "fikit_spin"), BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL));
  OK(cuCtxSynchronize());
  return 0;
}

int main(int argc, char **argv) {
  begin_without_device(argc, argv);
  for (int there = 0; going_on();) {
    if (there++ < AT_A_TIME) {
      if (fork() == 0)
        _exit(one());
    } else if (wait(NULL) > 0) {
      there -= 2;
      ended();
    }
  }
  while (wait(NULL) > 0)
    ;
  return finish();
}
