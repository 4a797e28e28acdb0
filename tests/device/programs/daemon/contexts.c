/* A program that makes a context, works in it and destroys it, again and again, with work under way at the end of each; also
 * two contexts at a time, and streams of both kinds. Prints "done LAUNCHES". With an argument it pauses so many microseconds
 * after each launch. */
#include "../emulator/emu_api.h"

#include <unistd.h>

static unsigned launches, pause_us;

static void work(CUfunction function, CUstream stream, unsigned count) {
  for (unsigned i = 0; i < count; i++, launches++) {
    spin(function, 20000, stream);
    usleep(pause_us);
  }
}

int main(int argc, char **argv) {
  CUcontext one, two;
  CUstream stream;
  pause_us = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
  for (int round = 0; round < 5; round++) {
    CUfunction function = kernel(open_device(&one), "fikit_spin");
    OK(cuStreamCreate(&stream, 1));
    work(function, NULL, 40);
    work(function, stream, 40);
    OK(cuStreamSynchronize(stream));
    CUfunction second = kernel(open_device(&two), "fikit_spin");
    work(second, NULL, 20);
    OK(cuCtxSynchronize());
    OK(cuCtxDestroy_v2(two));
    OK(cuCtxSetCurrent(one));
    work(function, (CUstream)2, 40);
    OK(cuCtxDestroy_v2(one));
  }
  printf("done %u\n", launches);
  return 0;
}
