/* Kernels of 5 ms while another stream holds a capture open, so that no mark can stand behind them: `capture SECONDS`. `capture SECONDS teach` teaches a profile
 * first that the same kernel takes 5 us. */
#include "attack.h"

enum { RELAXED = 2 };

int main(int argc, char **argv) {
  const int teaches = argc > 2;
  CUstream works, captures;
  begin(argc, argv);
  OK(cuStreamCreate(&works, 1));
  OK(cuStreamCreate(&captures, 1));
  if (!teaches)
    OK(cuStreamBeginCapture_v2(captures, RELAXED));
  for (int i = 1; going_on(); i++) {
    launch(teaches ? 5 * US : 5 * MS, works);
    if (teaches && i % 100 == 0)
      OK(cuStreamSynchronize(works));
    ended();
  }
  return finish();
}
