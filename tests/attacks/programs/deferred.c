/* Kernels of 200 us that fikit lets go in a gap, and that begin when the high job is back: `deferred SECONDS US`. A host function in front of them sleeps for so many us. */
#include "attack.h"

static int64_t sleep_ns;

static void sleeps(void *unused) {
  (void)unused;
  pause_ns(sleep_ns);
}

int main(int argc, char **argv) {
  sleep_ns = (argc > 2 ? atoll(argv[2]) : 2500) * US;
  begin(argc, argv);
  while (going_on()) {
    OK(cuLaunchHostFunc(NULL, sleeps, NULL));
    for (int i = 0; i < 4; i++)
      launch(200 * US, NULL);
    OK(cuCtxSynchronize());
    ended();
  }
  return finish();
}
