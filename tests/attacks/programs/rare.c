/* One kernel takes 5 us, and every 200th time 50 ms. No lie: a loop whose length depends on the data does this. */
#include "attack.h"

int main(int argc, char **argv) {
  begin(argc, argv);
  for (int i = 1; going_on(); i++) {
    launch(i % 200 ? 5 * US : 50 * MS, NULL);
    if (i % 64 == 0)
      OK(cuCtxSynchronize());
    ended();
  }
  return finish();
}
