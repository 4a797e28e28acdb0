/* Launches in the form of the first CUDA versions: parameters are set on the function and stay there. */
#include "../conformance.h"

CUresult cuFuncSetBlockShape(CUfunction, int, int, int), cuParamSetSize(CUfunction, unsigned), cuParamSeti(CUfunction, int, unsigned);
CUresult cuParamSetv(CUfunction, int, void *, unsigned), cuLaunch(CUfunction), cuLaunchGridAsync(CUfunction, int, int, CUstream);

int main(void) {
  CUcontext context;
  CUmodule module = open_device(&context);
  CUfunction check = kernel(module, "emu_check_order");
  CUdeviceptr counter = zeroed(4);
  CUstream stream;
  OK(cuStreamCreate(&stream, 0));
  see("block_shape", cuFuncSetBlockShape(check, 1, 1, 1));
  see("empty_block", cuFuncSetBlockShape(check, 0, 1, 1));
  OK(cuParamSetSize(check, 12));
  OK(cuParamSetv(check, 0, &counter, sizeof counter));
  OK(cuParamSeti(check, 8, 0));
  see("launch", cuLaunch(check));
  see("counter", word(counter));
  OK(cuParamSeti(check, 8, 1)); /* the pointer stays */
  see("launch_in_stream", cuLaunchGridAsync(check, 1, 1, stream));
  OK(cuStreamSynchronize(stream));
  see("counter_then", word(counter));
  return 0;
}
