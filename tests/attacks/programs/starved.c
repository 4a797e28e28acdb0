/* Long kernels and nothing else: `starved SECONDS MS PROCESSES`, kernels of so many ms, a wait after each. Nobody pretends anything: each waits until fikit lets a launch go that
 * has waited for long enough. */
#include "attack.h"

int main(int argc, char **argv) {
  const int64_t ns = (argc > 2 ? atoll(argv[2]) : 3000) * MS;
  crew(argc > 3 ? atoi(argv[3]) : 1);
  begin(argc, argv);
  while (going_on()) {
    launch(ns, NULL);
    OK(cuCtxSynchronize());
    ended();
  }
  return finish();
}
