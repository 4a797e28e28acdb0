/*
 * A memset of a few bytes stands for a kernel, since the shim loads no module into programs. On an idle stream two events around it measure its way
 * to the device, its run and the events' own cost, because the first event is reached before the memset arrives. On a stream that is held up until
 * all have arrived, they measure all that but the way; it is held up by a wait for a word of host memory, as by NVBench's blocking kernel. The way is
 * the difference between the least times of a few rounds of each, because disturbances only add to a time.
 *
 * A kernel reaches an idle stream the later the longer its call takes. Rounds with a host that is late on purpose tell from which length on the
 * device's times show that.
 *
 * On the held-up stream a third event stands before the two, so that nothing runs between it and the first of them. What the events cost around a
 * kernel is at least what passes between these two, and at most what passes around the memset, whose own run is part of that. On an NVIDIA H200
 * (2026-11-27) 1.04 us passed between the end event of one kernel and the start event of the next one in line, and the events around kernels of
 * 20 and 300 us told 3.15 us more than the kernels themselves: three times as much.
 */
#include "timing/calibrate.h"
#include "base/clock.h"
#include "base/memory_abi.h"
#include "base/nap.h"
#include "base/symbols.h"

#include <stdatomic.h>

enum { ROUNDS = 4, LEAST_ROUNDS = 2, NON_BLOCKING = 1, BYTES = 4, WAIT_UNTIL_EQUAL = 1, HOST_MAPPED = 2 };
enum { PAIR_PARTS = 3 };        /* events around a kernel cost so many times what passes between two events */
enum { MOST_PAIR_NS = 20000 };   /* events cost no more: beyond it the device did something else, and the cost is not known */
enum { PATIENCE_NS = 4000000 }; /* for all rounds, and for one hold: on a shared device a round may wait for other processes' slices */
enum { LONGEST_NS = 20000000 }; /* for the end of a round; beyond it the device has something else to do */
enum { NAP_NS = 50000 };        /* who polls all the time is the first to lose its core on a busy host */
enum { LATE_NS = 20000 };       /* of the host in some rounds: long beside a call */
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

static void spin_until(int64_t until_ns) {
  while (fikit_now_ns() < until_ns)
    ;
}

/* late_ns: how long the host is busy with something else before the memset. */
static bool enqueue(struct fikit_bench *bench, int64_t late_ns) {
  if (REAL(cuEventRecord)(bench->start, bench->stream) != CUDA_SUCCESS)
    return false;
  const int64_t from_ns = fikit_now_ns();
  spin_until(from_ns + late_ns);
  if (REAL(cuMemsetD8Async)(bench->target, 0, BYTES, bench->stream) != CUDA_SUCCESS)
    return false;
  int64_t *const call_ns = late_ns ? &bench->late_call_ns : &bench->call_ns;
  *call_ns = least(*call_ns, fikit_now_ns() - from_ns);
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

/* Device time between two events of a round; INT64_MAX: not known. */
static int64_t between_ns(const struct fikit_bench *bench, CUevent from, CUevent to) {
  float ms = 0;
  if (!is_over(bench) || REAL(cuEventElapsedTime)(&ms, from, to) != CUDA_SUCCESS)
    return INT64_MAX;
  return (int64_t)((double)ms * 1e6);
}

static int64_t idle_ns(struct fikit_bench *bench, int64_t late_ns) {
  const int64_t from_ns = fikit_now_ns();
  const int64_t ns = enqueue(bench, late_ns) ? between_ns(bench, bench->start, bench->end) : INT64_MAX;
  bench->arrived_ns = least(bench->arrived_ns, fikit_now_ns() - from_ns);
  return ns;
}

/* The stream is released in any case, also after an error. empty_ns: between two events with nothing between them. */
static int64_t held_ns(struct fikit_bench *bench, int64_t *empty_ns) {
  const uint32_t number = ++bench->rounds;
  if (REAL(cuStreamWaitValue32_v2)(bench->stream, bench->word_address, number, WAIT_UNTIL_EQUAL) != CUDA_SUCCESS)
    return INT64_MAX;
  const bool enqueued = REAL(cuEventRecord)(bench->before, bench->stream) == CUDA_SUCCESS && enqueue(bench, 0);
  spin_until(fikit_now_ns() + bench->arrived_ns);
  atomic_store_explicit((_Atomic uint32_t *)bench->word, number, memory_order_release);
  *empty_ns = enqueued ? between_ns(bench, bench->before, bench->start) : INT64_MAX;
  return *empty_ns != INT64_MAX ? between_ns(bench, bench->start, bench->end) : INT64_MAX;
}

static bool try_out(struct fikit_bench *bench, struct fikit_way *way) {
  const int64_t until_ns = fikit_now_ns() + PATIENCE_NS;
  struct two idle = none, late = none, held = none, empty = none;
  if (idle_ns(bench, 0) == INT64_MAX) /* the first one loads what the driver needs for it */
    return false;
  bench->call_ns = bench->late_call_ns = bench->arrived_ns = INT64_MAX;
  for (int round = 0; round < ROUNDS && (round < LEAST_ROUNDS || fikit_now_ns() < until_ns); round++) {
    int64_t empty_ns = INT64_MAX;
    const int64_t one_ns = idle_ns(bench, 0);
    const int64_t late_ns = one_ns != INT64_MAX ? idle_ns(bench, LATE_NS) : INT64_MAX;
    const int64_t other_ns = late_ns != INT64_MAX && bench->arrived_ns <= PATIENCE_NS ? held_ns(bench, &empty_ns) : INT64_MAX;
    if (other_ns == INT64_MAX)
      return false;
    add(&idle, one_ns);
    add(&late, late_ns);
    add(&held, other_ns);
    add(&empty, empty_ns);
  }
  if (!agree(&idle) || !agree(&late) || !agree(&held) || !agree(&empty))
    return false;
  const int64_t pair_ns = least(held.least_ns, PAIR_PARTS * empty.least_ns);
  *way = (struct fikit_way){
      .launch_ns = idle.least_ns - held.least_ns,
      .call_ns = bench->call_ns,
      .hidden_ns = bench->late_call_ns - (late.least_ns - idle.least_ns),
      .pair_ns = pair_ns <= MOST_PAIR_NS ? pair_ns : 0,
  };
  return true;
}

/* What the driver refuses is tried again with the next round, and what it has made is kept. */
static bool is_made(struct fikit_bench *bench) {
  if (!bench->stream && REAL(cuStreamCreate)(&bench->stream, NON_BLOCKING) != CUDA_SUCCESS)
    return false;
  if (!bench->before && REAL(cuEventCreate)(&bench->before, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
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
  bench->call_ns = bench->late_call_ns = bench->arrived_ns = INT64_MAX;
  return try_out(bench, way);
}
