/* Work that is stored while the program is alone. `stored SECONDS wait`: 1,000 kernels of 20 ms behind an unmet cuStreamWaitValue32, whose value SIGUSR1 writes.
 * `stored SECONDS streams`: for one second kernels of 5 ms on 64 streams, 61,000 at most. Says "stored" when all of it is with the driver, and "drained" when all is done. */
#include "attack.h"

enum { STREAMS = 64, MOST = 61000, DEVICEMAP = 2, GEQ = 0 };

CUresult cuStreamWaitValue32_v2(CUstream, CUdeviceptr, uint32_t, unsigned);

static volatile uint32_t *value;

static void behind_a_wait(void) {
  void *memory;
  CUstream stream;
  OK(cuMemHostAlloc(&memory, 4096, DEVICEMAP));
  value = memory;
  *value = 0;
  OK(cuStreamCreate(&stream, 1));
  OK(cuStreamWaitValue32_v2(stream, (CUdeviceptr)(uintptr_t)memory, 1, GEQ));
  for (int i = 0; i < 1000; i++)
    launch(20 * MS, stream);
}

static void on_streams(void) {
  CUstream streams[STREAMS];
  const int64_t end_ns = now_ns() + 1000 * MS;
  for (int i = 0; i < STREAMS; i++)
    OK(cuStreamCreate(&streams[i], 1));
  for (int i = 0; i < MOST && now_ns() < end_ns; i++) {
    launch(5 * MS, streams[i % STREAMS]);
    ended();
  }
}

int main(int argc, char **argv) {
  const int waits = argc > 2 && strcmp(argv[2], "wait") == 0;
  begin(argc, argv);
  waits ? behind_a_wait() : on_streams();
  say("stored");
  while (!told_to_go && going_on())
    pause_ns(MS);
  if (waits)
    *value = 1;
  OK(cuCtxSynchronize());
  say("drained");
  return finish();
}
