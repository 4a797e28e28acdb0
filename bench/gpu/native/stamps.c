/*
 * One of two programs that share a GPU: its kernels say when they ran, on the GPU's own clock (%globaltimer), which both
 * read. Says "ready", begins when it is given a line, and prints one JSON object. bench/gpu/stamps.py makes sense of two.
 *
 * usage: fikit-gpu-stamps chain BLOCKS KERNEL_NS MS            kernels without a gap, for so long
 *        fikit-gpu-stamps gaps BLOCKS KERNEL_NS MS GAP_NS...   one kernel at a time, after each of the gaps in turn
 * BLOCKS: of 1024 threads; 0: as many as the GPU holds at a time, -1: half of them.
 */
#define _GNU_SOURCE
#include "device.h"

#ifdef WITH_CONTROLS /* fikit-gpu-turns: the same program, with controls of its own channel groups from FIKIT_GPU_CONTROLS */
#include "channel_group.h"
#else
static bool plan_controls(const char *words) { return !*words; }
static void begin_controls(void) {}
static void print_controls(void) {}
#endif

enum { CAPACITY = 262144, BATCH = 32, BATCHES = 4, MOST_GAPS = 32 };

static unsigned blocks_of(long wanted) {
  enum { BLOCKS_OF_A_MULTIPROCESSOR = 2 }; /* of 1024 threads, on every GPU since sm_80 but those of 1536 threads */
  long all = (long)gpu.multiprocessors * BLOCKS_OF_A_MULTIPROCESSOR;
  return (unsigned)(wanted > 0 ? wanted : wanted == 0 ? all : all / 2);
}

static void begin(void) {
  char line[64];
  printf("ready\n");
  fflush(stdout);
  if (!fgets(line, sizeof line, stdin))
    exit(1);
  begin_controls();
}

static void finish(int count, const int64_t *took, const int64_t *gap) {
  int64_t *stamps = needed(malloc(sizeof(int64_t) * 2 * (size_t)(count + 1)));
  read_stamps(stamps, 0, count);
  print_gpu();
  print_numbers("stamps", stamps, 2 * count);
  if (took) {
    print_numbers("took_ns", took, count);
    print_numbers("gap_ns", gap, count);
  }
  print_controls();
  printf("}\n");
  free(stamps);
}

/* A few batches are always queued, so that the device never waits for the host. */
static void chain(unsigned blocks, int64_t kernel_ns, int64_t length_ns) {
  void *events[BATCHES];
  int count = 0;
  for (int i = 0; i < BATCHES; i++)
    check(cuEventCreate(&events[i], UNTIMED), "create an event");
  int64_t per_batch = kernel_ns > 500000 ? 2 : BATCH;
  int64_t until_ns = now_ns() + length_ns;
  for (int batch = 0; now_ns() < until_ns && count + BATCH <= CAPACITY; batch++) {
    void *ended = events[batch % BATCHES];
    while (batch >= BATCHES && cuEventQuery(ended) == 600 /* CUDA_ERROR_NOT_READY */)
      ;
    for (int i = 0; i < per_batch; i++)
      launch_work(gpu.stream, blocks, kernel_ns, count++);
    check(cuEventRecord(ended, gpu.stream), "record an event");
  }
  check(cuStreamSynchronize(gpu.stream), "wait for the kernels");
  finish(count, NULL, NULL);
}

static void gaps(unsigned blocks, int64_t kernel_ns, int64_t length_ns, const int64_t *each, int kinds) {
  int64_t *took = needed(calloc(CAPACITY, sizeof *took)), *gap = needed(calloc(CAPACITY, sizeof *gap));
  int count = 0;
  int64_t end_ns = now_ns(), until_ns = end_ns + length_ns;
  while (end_ns < until_ns && count < CAPACITY) {
    gap[count] = each[(count * 7 + count / kinds) % kinds];
    while (now_ns() < end_ns + gap[count])
      ;
    int64_t before_ns = now_ns();
    launch_work(gpu.stream, blocks, kernel_ns, count);
    check(cuStreamSynchronize(gpu.stream), "wait for the kernel");
    end_ns = now_ns();
    took[count++] = end_ns - before_ns;
  }
  finish(count, took, gap);
  free(took);
  free(gap);
}

int main(int argc, char **argv) {
  int64_t numbers[3 + MOST_GAPS] = {0};
  int given = argc - 2;
  bool in_chain = given == 3 && strcmp(argv[1], "chain") == 0;
  bool with_gaps = given > 3 && given <= 3 + MOST_GAPS && strcmp(argv[1], "gaps") == 0;
  if (!in_chain && !with_gaps) {
    fprintf(stderr, "usage: fikit-gpu-stamps chain|gaps BLOCKS KERNEL_NS MS [GAP_NS...]\n");
    return 2;
  }
  const char *controls = getenv("FIKIT_GPU_CONTROLS");
  if (!plan_controls(controls ? controls : ""))
    fail("read FIKIT_GPU_CONTROLS", controls);
  for (int i = 0; i < given; i++)
    numbers[i] = strtoll(argv[i + 2], NULL, 10);
  open_gpu(CAPACITY);
  unsigned blocks = blocks_of(numbers[0]);
  launch_work(gpu.stream, blocks, numbers[1], 0); /* what the first launch loads, is loaded */
  check(cuStreamSynchronize(gpu.stream), "wait for the kernel");
  begin();
  if (in_chain)
    chain(blocks, numbers[1], numbers[2] * 1000000);
  else
    gaps(blocks, numbers[1], numbers[2] * 1000000, numbers + 3, given - 3);
  return 0;
}
