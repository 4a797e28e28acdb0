/* GCC's OpenMP offloading: blocking regions, each with its copies. Results are zeros on the emulated GPU. */
#include <omp.h>
#include <stdio.h>

enum { COUNT = 1000 };

int main(void) {
  float x[COUNT], y[COUNT];
  for (int i = 0; i < COUNT; i++) x[i] = y[i] = 1;
  for (int round = 0; round < 10; round++) {
#pragma omp target teams distribute parallel for map(to : x) map(tofrom : y)
    for (int i = 0; i < COUNT; i++) y[i] += x[i];
  }
  printf("devices %d\n", omp_get_num_devices());
  return 0;
}
