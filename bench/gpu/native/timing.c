/*
 * Short kernels whose true durations the device itself says: what fikit measured of them is compared with that. Each kind,
 * a length on an idle or on a busy stream, has a grid of its own, by which a profile tells it apart. Prints one JSON object.
 *
 * usage: fikit-gpu-timing LAUNCHES, under `fikit run --measure`
 */
#define _GNU_SOURCE
#include "device.h"

enum { LENGTHS = 4, IN_LINE = 16, MOST = 10000, PAUSE_NS = 50000 };

static const int64_t lengths_ns[LENGTHS] = {3000, 5000, 20000, 300000};

static void pause_ns(int64_t ns) {
  int64_t until_ns = now_ns() + ns;
  while (now_ns() < until_ns)
    ;
}

static void run(int launches, unsigned blocks, int64_t ns, bool busy) {
  for (int i = 0; i < launches; i++) {
    launch_work(gpu.stream, blocks, ns, i);
    if (busy && i % IN_LINE != IN_LINE - 1)
      continue;
    check(cuStreamSynchronize(gpu.stream), "wait for the kernels");
    pause_ns(PAUSE_NS);
  }
  check(cuStreamSynchronize(gpu.stream), "wait for the kernels");
}

int main(int argc, char **argv) {
  int launches = argc == 2 ? (int)strtol(argv[1], NULL, 10) : 0;
  if (launches < IN_LINE || launches > MOST) {
    fprintf(stderr, "usage: fikit-gpu-timing LAUNCHES (16 to 10000)\n");
    return 2;
  }
  int64_t *stamps = needed(malloc(sizeof(int64_t) * 2 * (size_t)launches));
  open_gpu(launches);
  print_gpu();
  printf(", \"in_line\": %d, \"cases\": [", IN_LINE);
  for (unsigned kind = 0; kind < 2 * LENGTHS; kind++) {
    int64_t ns = lengths_ns[kind / 2];
    run(launches, 2 + kind, ns, kind & 1); /* a grid of one block is the calibration's */
    read_stamps(stamps, 0, launches);
    printf("%s{\"blocks\": %u, \"ns\": %" PRId64 ", \"busy\": %s", kind ? ", " : "", 2 + kind, ns,
           kind & 1 ? "true" : "false");
    print_numbers("stamps", stamps, 2 * launches);
    printf("}");
  }
  printf("]}\n");
  free(stamps);
  return 0;
}
