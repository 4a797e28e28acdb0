/*
 * A memset of a few bytes stands for a kernel, since the shim loads no module into programs. On an idle stream two events around it measure its way
 * to the device and its run, because the first event is reached before the memset arrives. On a stream that is held up until all three have
 * arrived, they measure the run alone; it is held up by a wait for a word of host memory, as by NVBench's blocking kernel. The way is the
 * difference between the least times of a few rounds of each, because disturbances only add to a time.
 */
#include "timing/calibrate.h"
#include "base/clock.h"
#include "base/memory_abi.h"
#include "base/nap.h"
#include "base/symbols.h"

#include <stdatomic.h>

enum { ROUNDS = 4, LEAST_ROUNDS = 2, NON_BLOCKING = 1, BYTES = 4, WAIT_UNTIL_EQUAL = 1, HOST_MAPPED = 2 };
enum { PATIENCE_NS = 4000000 }; /* for all rounds, and for one hold: on a shared device a round may wait for other processes' slices */
enum { LONGEST_NS = 20000000 }; /* for the end of a round; beyond it the device has something else to do */
enum { NAP_NS = 50000 };        /* who polls all the time is the first to lose its core on a busy host */
enum { AGREEING_NS = 2000 };    /* two rounds agree if they differ by no more than this, or a quarter */

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

static bool enqueue(struct fikit_bench *bench) {
  if (REAL(cuEventRecord)(bench->start, bench->stream) != CUDA_SUCCESS)
    return false;
  const int64_t from_ns = fikit_now_ns();
  if (REAL(cuMemsetD8Async)(bench->target, 0, BYTES, bench->stream) != CUDA_SUCCESS)
    return false;
  bench->call_ns = least(bench->call_ns, fikit_now_ns() - from_ns);
  return REAL(cuEventRecord)(bench->end, bench->stream) == CUDA_SUCCESS;
}

/* A kernel may fill the device until the host says so, which is this very thread: to synchronise would be to wait for ever. */
static bool is_over(const struct fikit_bench *bench) {
  const int64_t from_ns = fikit_now_ns();
  CUresult result;
  while ((result = REAL(cuEventQuery)(bench->end)) == CUDA_ERROR_NOT_READY) {
    const int64_t waited_ns = fikit_now_ns() - from_ns;
    if (waited_ns > LONGEST_NS)
      return false;
    if (waited_ns > NAP_NS)
      fikit_nap(NAP_NS);
  }
  return result == CUDA_SUCCESS;
}

/* Device time between the two events; INT64_MAX: not known. */
static int64_t between_ns(struct fikit_bench *bench) {
  float ms = 0;
  if (!is_over(bench) || REAL(cuEventElapsedTime)(&ms, bench->start, bench->end) != CUDA_SUCCESS)
    return INT64_MAX;
  return (int64_t)((double)ms * 1e6);
}

static int64_t idle_ns(struct fikit_bench *bench) {
  const int64_t from_ns = fikit_now_ns();
  const int64_t ns = enqueue(bench) ? between_ns(bench) : INT64_MAX;
  bench->arrived_ns = least(bench->arrived_ns, fikit_now_ns() - from_ns);
  return ns;
}

/* The stream is released in any case, also after an error. */
static int64_t held_ns(struct fikit_bench *bench) {
  const uint32_t number = ++bench->rounds;
  if (REAL(cuStreamWaitValue32_v2)(bench->stream, bench->word_address, number, WAIT_UNTIL_EQUAL) != CUDA_SUCCESS)
    return INT64_MAX;
  const bool enqueued = enqueue(bench);
  const int64_t until_ns = fikit_now_ns() + bench->arrived_ns;
  while (fikit_now_ns() < until_ns)
    ;
  atomic_store_explicit((_Atomic uint32_t *)bench->word, number, memory_order_release);
  return enqueued ? between_ns(bench) : INT64_MAX;
}

static bool try_out(struct fikit_bench *bench, struct fikit_way *way) {
  const int64_t until_ns = fikit_now_ns() + PATIENCE_NS;
  struct two idle = none, held = none;
  if (idle_ns(bench) == INT64_MAX) /* the first one loads what the driver needs for it */
    return false;
  bench->call_ns = bench->arrived_ns = INT64_MAX;
  for (int round = 0; round < ROUNDS && (round < LEAST_ROUNDS || fikit_now_ns() < until_ns); round++) {
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

/* What the driver refuses is tried again with the next round, and what it has made is kept. */
static bool is_made(struct fikit_bench *bench) {
  if (!bench->stream && REAL(cuStreamCreate)(&bench->stream, NON_BLOCKING) != CUDA_SUCCESS)
    return false;
  if (!bench->start && REAL(cuEventCreate)(&bench->start, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
    return false;
  if (!bench->end && REAL(cuEventCreate)(&bench->end, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
    return false;
  if (!bench->word && REAL(cuMemHostAlloc)(&bench->word, BYTES, HOST_MAPPED) != CUDA_SUCCESS)
    return false;
  if (!bench->word_address && REAL(cuMemHostGetDevicePointer_v2)(&bench->word_address, bench->word, 0) != CUDA_SUCCESS)
    return false;
  return bench->target || REAL(cuMemAlloc_v2)(&bench->target, BYTES) == CUDA_SUCCESS;
}

bool fikit_calibrate(struct fikit_bench *bench, struct fikit_way *way) {
  CUcontext context = NULL;
  if (REAL(cuCtxGetCurrent)(&context) != CUDA_SUCCESS || (bench->context && bench->context != context))
    return false;
  bench->context = context;
  if (!is_made(bench) || REAL(cuStreamQuery)(bench->stream) != CUDA_SUCCESS)
    return false;
  bench->call_ns = bench->arrived_ns = INT64_MAX;
  return try_out(bench, way);
}
