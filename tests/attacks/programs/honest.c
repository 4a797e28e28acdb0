/* A low job that does nothing against anybody: `honest SECONDS US KERNELS`, kernels of so many us, a wait after so many of them. Without KERNELS there is no wait before
 * the stream is full: a flood. */
#include "attack.h"

int main(int argc, char **argv) {
  const int64_t ns = (argc > 2 ? atoll(argv[2]) : 200) * US;
  const int kernels = argc > 3 ? atoi(argv[3]) : 0;
  begin(argc, argv);
  for (int i = 1; going_on(); i++) {
    launch(ns, NULL);
    if (kernels && i % kernels == 0) {
      OK(cuCtxSynchronize());
      ended();
    }
  }
  return finish();
}
