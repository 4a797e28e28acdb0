/* Processes in concert: `concert SECONDS PROCESSES MS`. For two seconds each launches kernels of 5 us; then every one, in the same gap, one of so many ms. */
#include "attack.h"

int main(int argc, char **argv) {
  const int64_t ns = (argc > 3 ? atoll(argv[3]) : 200) * MS;
  crew(argc > 2 ? atoi(argv[2]) : 8);
  begin(argc, argv);
  for (int64_t round = now_ns() / (2000 * MS); going_on();) {
    const int64_t now = now_ns() / (2000 * MS);
    launch(now != round ? ns : 5 * US, NULL);
    round = now;
    OK(cuCtxSynchronize());
    pause_ns(MS);
    ended();
  }
  return finish();
}
