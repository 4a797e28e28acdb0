/* What timing/measure.c (which launches are timed, and the events around them) and timing/harvest.c (reading these events) share. */
#ifndef FIKIT_SHIM_MEASURE_RECORD_H
#define FIKIT_SHIM_MEASURE_RECORD_H

#include "base/device.h"
#include "base/lock.h"
#include "timing/calibrate.h"
#include "timing/event_timing.h"

struct fikit_measure {
  pthread_mutex_t mutex;
  bool every;                        /* --fikit-measure: every launch is timed */
  _Atomic unsigned flying;           /* launches in flight */
  unsigned used;                     /* entries of `timed` that were ever used */
  struct fikit_timed *bare, *free;   /* without events, since their context is gone; with events, ready for use */
  struct fikit_timed *first, **last; /* in flight, in launch order */
  struct fikit_timed *previous;      /* the last one harvested: the gap after it has not ended */
  CUstream stream;                   /* of the newest launch */
  bool several;                      /* launches in flight are of more than one stream */

  /* Sampling. A launch or synchronisation never waits for another thread's sample: it is not sampled then. */
  atomic_flag busy;
  bool second;           /* the next launch is the second one of a pair */
  uint64_t interval;     /* launches between pairs, on average; grows to twice sample_every */
  uint64_t random;       /* varies the interval, so that a program's own period does not decide what is sampled */
  int64_t spent_ns;      /* cost of the current pair so far */
  int64_t last_spent_ns; /* cost of the last call */
  int64_t not_before_ns; /* the earliest time of the next pair */
  uint64_t planned;      /* launch_seq from which on the next pair is due */
  uint64_t paired;       /* launch_seq of the newest pair */
  bool owes;             /* the next pair was due when its cost had not been earned yet */
  _Atomic bool fresh;    /* the launch that begins now is a kernel's first, and is timed in addition */
  _Atomic(CUcontext) stocked;

  struct fikit_way way; /* measured in the first context with a timed launch; 0: not known */
  struct fikit_bench bench;
  int tries;
  int64_t try_again_ns;
  struct fikit_timed timed[FIKIT_TIMED];
  struct fikit_timed *completed_now[FIKIT_TIMED];
  struct fikit_spans spans;
};

/* Into one of the lists of pairs of events that are not in flight. */
static inline void fikit_event_pool_put(struct fikit_timed **list, struct fikit_timed *timed) {
  if (timed) {
    timed->next = *list;
    *list = timed;
  }
}

/* The mutex, for this thread; when sampling, not if another one has it. False: without it. */
static inline bool fikit_measure_enter(struct fikit_measure *measure) {
  if (!measure->every && atomic_flag_test_and_set_explicit(&measure->busy, memory_order_acquire))
    return false;
  if (fikit_lock(&measure->mutex))
    return true;
  atomic_flag_clear_explicit(&measure->busy, memory_order_release);
  return false;
}

static inline void fikit_measure_leave(struct fikit_measure *measure) {
  fikit_unlock(&measure->mutex);
  atomic_flag_clear_explicit(&measure->busy, memory_order_release);
}

/* Under the mutex: reads the events of the launches that have completed, and reports them in launch order. */
void fikit_measure_read(struct fikit_device *device);

/* Under the mutex, sampling: the time since start_ns is cost of a sample. */
void fikit_measure_count_cost(struct fikit_measure *measure, int64_t start_ns);

#endif
