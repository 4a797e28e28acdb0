/* Three seconds of kernels of 200 us, then one second in which the same kernel takes 50 ms, in turns: what was learnt and saved in good times is used up in bad ones. */
#include "attack.h"

int main(int argc, char **argv) {
  begin(argc, argv);
  const int64_t begun_ns = now_ns();
  while (going_on()) {
    launch((now_ns() - begun_ns) / (1000 * MS) % 4 == 3 ? 50 * MS : 200 * US, NULL);
    OK(cuCtxSynchronize());
    ended();
  }
  return finish();
}
