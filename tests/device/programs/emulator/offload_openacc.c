/* GCC's OpenACC offloading: two asynchronous queues and a reduction. Results are zeros on the emulated GPU. */
#include <openacc.h>
#include <stdio.h>

enum { COUNT = 1000 };

int main(void) {
  float a[COUNT], b[COUNT];
  int counted = 0;
  for (int i = 0; i < COUNT; i++) a[i] = b[i] = 1;
#pragma acc data copy(a, b)
  {
    for (int round = 0; round < 5; round++) {
#pragma acc parallel loop async(1)
      for (int i = 0; i < COUNT; i++) a[i] *= 2;
#pragma acc parallel loop async(2)
      for (int i = 0; i < COUNT; i++) b[i] *= 3;
    }
#pragma acc update self(a) async(1)
#pragma acc wait
#pragma acc parallel loop reduction(+ : counted)
    for (int i = 0; i < COUNT; i++) counted += 1;
  }
  printf("devices %d\n", acc_get_num_devices(acc_device_nvidia));
  return 0;
}
