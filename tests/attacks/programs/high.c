/* The high job of every row: 10 kernels of 200 us, a wait, 3 ms on the host. `high SECONDS stop`: after a hundred iterations it is stopped between the fifth kernel
 * and the sixth. */
#include "attack.h"

#include <sys/prctl.h>

int main(int argc, char **argv) {
  prctl(PR_SET_TIMERSLACK, 1);
  begin(argc, argv);
  while (going_on()) {
    for (int i = 0; i < 10; i++) {
      launch(200 * US, NULL);
      if (i == 4 && count == 100 && argc > 2)
        raise(SIGSTOP);
    }
    OK(cuCtxSynchronize());
    pause_ns(3 * MS);
    ended();
  }
  return finish();
}
