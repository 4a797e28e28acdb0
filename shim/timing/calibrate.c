/*
 * A memset of a few bytes stands for a kernel: programs' modules are theirs, so the shim loads none. Two events around it say on
 * an idle stream how long its way and its run take, for the first event is reached before it arrives. On a stream that is held up
 * until all three have arrived they say how long it runs, and no more; what holds the stream up is a wait for a word of the
 * host's memory, as NVBench's blocking kernel does. The way is the difference, of a few rounds of each the least, for whatever
 * else happens only adds to it.
 */
#include "timing/calibrate.h"
#include "base/clock.h"
#include "base/memory_abi.h"
#include "base/symbols.h"

#include <stdatomic.h>

enum { ROUNDS = 4, NON_BLOCKING = 1, BYTES = 4, WAIT_UNTIL_EQUAL = 1, HOST_MAPPED = 2 };
enum { PATIENCE_NS = 4000000 }; /* for all rounds, and the longest hold: on a device that others use, one may wait for their slices */
enum { AGREEING_NS = 2000 };    /* two rounds differ by at most so much, and a quarter, or something came between */

struct bench {
  CUstream stream;
  CUevent start, end;
  CUdeviceptr target;     /* of the memsets */
  _Atomic uint32_t *word; /* that the stream waits for */
  CUdeviceptr word_address;
  uint32_t rounds;    /* that waited for it: each for a number of its own */
  int64_t call_ns;    /* the host's, of one memset: least */
  int64_t arrived_ns; /* from the first call of an idle round until the device had done it all: least */
};

/* The two least of some times. */
struct two {
  int64_t least_ns, next_ns;
};

static const struct two none = {INT64_MAX, INT64_MAX};

static void add(struct two *two, int64_t ns) {
  if (ns >= two->next_ns)
    return;
  two->next_ns = ns < two->least_ns ? two->least_ns : ns;
  if (ns < two->least_ns)
    two->least_ns = ns;
}

static bool agree(const struct two *two) {
  return two->next_ns != INT64_MAX && two->next_ns - two->least_ns <= AGREEING_NS + two->least_ns / 4;
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static bool enqueue(struct bench *bench) {
  if (REAL(cuEventRecord)(bench->start, bench->stream) != CUDA_SUCCESS)
    return false;
  const int64_t from_ns = fikit_now_ns();
  if (REAL(cuMemsetD8Async)(bench->target, 0, BYTES, bench->stream) != CUDA_SUCCESS)
    return false;
  bench->call_ns = least(bench->call_ns, fikit_now_ns() - from_ns);
  return REAL(cuEventRecord)(bench->end, bench->stream) == CUDA_SUCCESS;
}

/* Device time between the two events; INT64_MAX: not known. */
static int64_t between_ns(struct bench *bench) {
  float ms = 0;
  if (REAL(cuEventSynchronize)(bench->end) != CUDA_SUCCESS ||
      REAL(cuEventElapsedTime)(&ms, bench->start, bench->end) != CUDA_SUCCESS)
    return INT64_MAX;
  return (int64_t)((double)ms * 1e6);
}

static int64_t idle_ns(struct bench *bench) {
  const int64_t from_ns = fikit_now_ns();
  const int64_t ns = enqueue(bench) ? between_ns(bench) : INT64_MAX;
  bench->arrived_ns = least(bench->arrived_ns, fikit_now_ns() - from_ns);
  return ns;
}

/* Whatever fails, the stream goes on. */
static int64_t held_ns(struct bench *bench) {
  const uint32_t number = ++bench->rounds;
  if (REAL(cuStreamWaitValue32_v2)(bench->stream, bench->word_address, number, WAIT_UNTIL_EQUAL) != CUDA_SUCCESS)
    return INT64_MAX;
  const bool enqueued = enqueue(bench);
  const int64_t until_ns = fikit_now_ns() + bench->arrived_ns;
  while (fikit_now_ns() < until_ns)
    ;
  atomic_store_explicit(bench->word, number, memory_order_release);
  return enqueued ? between_ns(bench) : INT64_MAX;
}

static bool try_out(struct bench *bench, struct fikit_way *way) {
  const int64_t until_ns = fikit_now_ns() + PATIENCE_NS;
  struct two idle = none, held = none;
  if (idle_ns(bench) == INT64_MAX) /* the first one loads what the driver needs for it */
    return false;
  bench->call_ns = bench->arrived_ns = INT64_MAX;
  for (int round = 0; round < ROUNDS && fikit_now_ns() < until_ns; round++) {
    const int64_t one_ns = idle_ns(bench);
    const int64_t other_ns = one_ns != INT64_MAX && bench->arrived_ns <= PATIENCE_NS ? held_ns(bench) : INT64_MAX;
    if (other_ns == INT64_MAX)
      return false;
    add(&idle, one_ns);
    add(&held, other_ns);
  }
  if (!agree(&idle) || !agree(&held))
    return false;
  *way = (struct fikit_way){idle.least_ns > held.least_ns ? idle.least_ns - held.least_ns : 0, bench->call_ns};
  return true;
}

static bool with_memory(struct bench *bench, struct fikit_way *way) {
  void *word = NULL;
  bool done = false;
  if (REAL(cuMemHostAlloc)(&word, BYTES, HOST_MAPPED) != CUDA_SUCCESS)
    return false;
  bench->word = word;
  atomic_store_explicit(bench->word, 0, memory_order_relaxed);
  if (REAL(cuMemHostGetDevicePointer_v2)(&bench->word_address, word, 0) == CUDA_SUCCESS &&
      REAL(cuMemAlloc_v2)(&bench->target, BYTES) == CUDA_SUCCESS) {
    done = try_out(bench, way);
    REAL(cuStreamSynchronize)(bench->stream); /* nothing of ours uses that memory any more */
    REAL(cuMemFree_v2)(bench->target);
  }
  REAL(cuMemFreeHost)(word);
  return done;
}

bool fikit_calibrate(struct fikit_way *way) {
  struct bench bench = {.call_ns = INT64_MAX, .arrived_ns = INT64_MAX};
  bool done = false;
  if (REAL(cuStreamCreate)(&bench.stream, NON_BLOCKING) != CUDA_SUCCESS)
    return false;
  if (REAL(cuEventCreate)(&bench.start, CU_EVENT_DEFAULT) == CUDA_SUCCESS) {
    if (REAL(cuEventCreate)(&bench.end, CU_EVENT_DEFAULT) == CUDA_SUCCESS) {
      done = with_memory(&bench, way);
      REAL(cuEventDestroy_v2)(bench.end);
    }
    REAL(cuEventDestroy_v2)(bench.start);
  }
  REAL(cuStreamDestroy_v2)(bench.stream);
  return done;
}
