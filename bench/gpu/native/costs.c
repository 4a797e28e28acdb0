/*
 * What calls of the driver cost that fikit makes beside a program's own: each by itself, on an idle and on a busy stream.
 * Prints one JSON object; each series is ns per call, with one reading of the clock, whose cost is the series "clock".
 *
 * usage: fikit-gpu-costs SAMPLES
 */
#define _GNU_SOURCE
#define MORE_DRIVER_FUNCTIONS(F) F(cuMemsetD8Async, device_pointer, unsigned char, size_t, void *)
#include "device.h"

#include <sys/mman.h>

enum { PAGE_BYTES = 65536, LONG_NS = 3000000, MOST = 100000 };

static int samples;

static int64_t *series(int count) { return needed(calloc((size_t)count, sizeof(int64_t))); }

static void wait_for_all(void) { check(cuStreamSynchronize(gpu.stream), "wait for the stream"); }

/* With `busy`, behind a kernel that outlasts a batch of calls. */
static void measure(const char *name, bool busy, void (*call)(void)) {
  enum { BATCH = 64 };
  int64_t *taken = series(samples);
  for (int i = -BATCH; i < samples; i++) {
    if (i % BATCH == 0) {
      wait_for_all();
      if (busy)
        launch(gpu.stream, 1, LONG_NS, 0, 0);
    }
    int64_t before_ns = now_ns();
    call();
    int64_t after_ns = now_ns();
    if (i >= 0)
      taken[i] = after_ns - before_ns;
  }
  wait_for_all();
  print_numbers(name, taken, samples);
  free(taken);
}

static void *event, *timed_event, *other_event;
static device_pointer mark;

static void nothing(void) {}
static void record(void) { check(cuEventRecord(event, gpu.stream), "record an event"); }
static void record_timed(void) { check(cuEventRecord(timed_event, gpu.stream), "record an event"); }
static void write_value(void) { check(cuStreamWriteValue32_v2(gpu.stream, mark, 1, 0), "write a value"); }
static void launch_one(void) { launch_null(gpu.stream); }
static void launch_and_wait(void) {
  launch_null(gpu.stream);
  wait_for_all();
}

static device_pointer target;
static void fill(void) { check(cuMemsetD8Async(target, 0, 4, gpu.stream), "fill memory"); }
static void two_launches(void) {
  launch_null(gpu.stream);
  launch_null(gpu.stream);
}

/* ns that an event pair around a call tells. */
static void pairs(const char *name, bool busy, void (*call)(void)) {
  enum { AHEAD_NS = 100000 };
  int count = samples / 8 + 1;
  int64_t *taken = series(count);
  for (int i = 0; i < count; i++) {
    float ms = 0;
    if (busy)
      launch(gpu.stream, 1, AHEAD_NS, 0, 0);
    record_timed();
    call();
    check(cuEventRecord(other_event, gpu.stream), "record an event");
    wait_for_all();
    check(cuEventElapsedTime(&ms, timed_event, other_event), "read the events");
    taken[i] = (int64_t)(ms * 1e6F);
  }
  print_numbers(name, taken, count);
  free(taken);
}

/* How long registering host memory takes, and giving it back, beside a kernel that runs, and whether they wait for it. */
static void registering(void) {
  enum { TIMES = 20, SPIN_NS = 20000000 };
  int64_t registered[TIMES], unregistered[TIMES], left[TIMES];
  void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    fail("map a page", strerror(errno));
  memset(page, 0, PAGE_BYTES);
  for (int i = 0; i < TIMES; i++) {
    launch(gpu.stream, 1, SPIN_NS, 0, 0);
    check(cuEventRecord(event, gpu.stream), "record an event");
    int64_t begin_ns = now_ns();
    int result = cuMemHostRegister_v2(page, PAGE_BYTES, DEVICEMAP);
    if (result != 0) {
      printf(", \"register_error\": %d", result);
      return;
    }
    int64_t between_ns = now_ns();
    left[i] = cuEventQuery(event) != 0; /* the kernel still runs */
    check(cuMemHostUnregister(page), "unregister memory");
    registered[i] = between_ns - begin_ns;
    unregistered[i] = now_ns() - between_ns;
    wait_for_all();
  }
  print_numbers("register_beside_kernel", registered, TIMES);
  print_numbers("unregister_beside_kernel", unregistered, TIMES);
  print_numbers("kernel_ran_after_register", left, TIMES);
}

static bool marks(void) {
  int able = 0;
  void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return page != MAP_FAILED && cuDeviceGetAttribute(&able, CAN_USE_64_BIT_STREAM_MEM_OPS, 0) == 0 && able &&
         cuMemHostRegister_v2(page, PAGE_BYTES, DEVICEMAP) == 0 && cuMemHostGetDevicePointer_v2(&mark, page, 0) == 0 &&
         cuStreamWriteValue32_v2(gpu.stream, mark, 1, 0) == 0;
}

int main(int argc, char **argv) {
  samples = argc == 2 ? (int)strtol(argv[1], NULL, 10) : 0;
  if (samples < 1 || samples > MOST) {
    fprintf(stderr, "usage: fikit-gpu-costs SAMPLES\n");
    return 2;
  }
  open_gpu(1);
  DO(cuEventCreate(&event, UNTIMED));
  DO(cuEventCreate(&timed_event, TIMED));
  DO(cuEventCreate(&other_event, TIMED));
  DO(cuMemAlloc_v2(&target, 4));
  bool can_mark = marks();
  print_gpu();
  printf(", \"marks\": %s", can_mark ? "true" : "false");
  measure("clock", false, nothing);
  measure("event_record", false, record);
  measure("event_record_busy", true, record);
  measure("timed_event_record", false, record_timed);
  measure("timed_event_record_busy", true, record_timed);
  if (can_mark) {
    measure("write_value", false, write_value);
    measure("write_value_busy", true, write_value);
  }
  measure("launch", false, launch_one);
  measure("launch_busy", true, launch_one);
  measure("launch_and_wait", false, launch_and_wait);
  measure("fill", false, fill);
  pairs("event_pair_idle", false, launch_one);
  pairs("event_pair_busy", true, launch_one);
  pairs("event_pair_two_busy", true, two_launches);
  pairs("event_pair_empty_idle", false, nothing);
  pairs("event_pair_empty_busy", true, nothing);
  pairs("event_pair_fill_idle", false, fill);
  pairs("event_pair_fill_busy", true, fill);
  registering();
  printf("}\n");
  return 0;
}
