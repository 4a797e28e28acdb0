/* Contexts: the stack of a thread, and the device's primary one. */
#include "conformance.h"

int main(void) {
  CUcontext a, b, current;
  CUdevice device;
  unsigned flags;
  int active, count;
  see("before_init", cuDeviceGetCount(&count));
  OK(cuInit(0));
  OK(cuDeviceGet(&device, 0));
  see("without_context", cuCtxSynchronize());
  OK(cuCtxCreate_v2(&a, 0, device));
  OK(cuCtxCreate_v2(&b, 0, device));
  OK(cuCtxGetCurrent(&current));
  see("created_is_current", current == b);
  OK(cuCtxPopCurrent_v2(&current));
  see("popped", current == b);
  OK(cuCtxGetCurrent(&current));
  see("the_one_below", current == a);
  OK(cuCtxPushCurrent_v2(b));
  OK(cuCtxGetCurrent(&current));
  see("pushed", current == b);
  OK(cuCtxDestroy_v2(b));
  OK(cuCtxGetCurrent(&current));
  see("destroying_pops", current == a);
  OK(cuCtxDestroy_v2(a));

  OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
  see("primary_not_retained", active);
  OK(cuDevicePrimaryCtxRetain(&a, device));
  OK(cuDevicePrimaryCtxRetain(&b, device));
  see("one_primary", a == b);
  OK(cuDevicePrimaryCtxRelease_v2(device));
  OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
  see("released_once", active);
  OK(cuDevicePrimaryCtxRelease_v2(device));
  OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
  see("released_twice", active);
  see("released_too_often", cuDevicePrimaryCtxRelease_v2(device));
  return 0;
}
