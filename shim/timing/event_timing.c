/*
 * The event before a kernel is reached when its stream gets there, not when the device begins the kernel. With several streams the kernel may wait
 * for another stream's kernel after that event, and the events measure that wait too. So a kernel's device time is its span (the time between its
 * events) less the parts that other spans cover which ended before it. Where the device runs one kernel at a time, that is exactly its run time;
 * in any case the sum over all spans is the time during which the device was busy.
 */
#include "timing/event_timing.h"
#include "base/symbols.h"

#include <string.h>

static const int64_t UNKNOWN = INT64_MIN;

static int64_t between_ns(CUevent from, CUevent to) {
  float ms = 0;
  return REAL(cuEventElapsedTime)(&ms, from, to) == CUDA_SUCCESS ? (int64_t)((double)ms * 1e6) : UNKNOWN;
}

static int64_t not_negative(int64_t ns) {
  return ns > 0 ? ns : 0;
}

static int64_t elapsed_ns(CUevent from, CUevent to) {
  int64_t ns = between_ns(from, to);
  return ns == UNKNOWN ? -1 : not_negative(ns);
}

/* With one stream: kernels run in the order of the launches, and the event before a kernel is reached when it begins. */
static void read_in_order(struct fikit_timed *const *launches, unsigned count, const struct fikit_timed *before) {
  for (unsigned i = 0; i < count; i++) {
    struct fikit_timed *timed = launches[i];
    timed->run_ns = timed->failed ? -1 : elapsed_ns(timed->start, timed->end);
    timed->gap_ns = !timed->failed && fikit_timed_neighbours(before, timed) ? elapsed_ns(before->end, timed->start) : -1;
    before = timed;
  }
}

/* The part of spans[i] that no span covers which ended before it. The spans are in the order of their ends. */
static int64_t own_ns(const struct fikit_span *spans, unsigned i) {
  int64_t start_ns = spans[i].start_ns, until_ns = spans[i].end_ns, left_ns = until_ns - start_ns;
  while (i-- > 0 && spans[i].end_ns > start_ns && until_ns > start_ns) {
    int64_t from_ns = spans[i].start_ns > start_ns ? spans[i].start_ns : start_ns;
    int64_t to_ns = spans[i].end_ns < until_ns ? spans[i].end_ns : until_ns;
    if (from_ns >= to_ns)
      continue;
    left_ns -= to_ns - from_ns;
    until_ns = from_ns;
  }
  return left_ns;
}

/* Events of different contexts cannot be compared. */
static bool comparable(struct fikit_timed *const *launches, unsigned count, const struct fikit_timed *origin) {
  for (unsigned i = 0; i < count; i++)
    if (launches[i]->failed || launches[i]->context != origin->context)
      return false;
  return !origin->failed;
}

/* False: the driver returns no times. */
static bool span_of(struct fikit_timed *timed, const struct fikit_timed *origin, struct fikit_span *span) {
  *span = (struct fikit_span){between_ns(origin->start, timed->start), between_ns(origin->start, timed->end), timed};
  return span->start_ns != UNKNOWN && span->end_ns != UNKNOWN;
}

/* Sorted in by its end, from the back: launches complete nearly in their order. */
static void sort_in(struct fikit_spans *known, const struct fikit_span *span) {
  unsigned i = known->count++;
  for (; i > 0 && known->spans[i - 1].end_ns > span->end_ns; i--)
    known->spans[i] = known->spans[i - 1];
  known->spans[i] = *span;
}

/* Times count from the start of the newest launch that has been read, whose events are kept for that until there is a newer one. */
static bool move_origin(struct fikit_spans *known, const struct fikit_timed *newest) {
  const struct fikit_timed *origin = known->origin;
  if (origin && origin->seq >= newest->seq)
    return true;
  int64_t later_ns = origin ? between_ns(origin->start, newest->start) : 0;
  if (later_ns == UNKNOWN)
    return false;
  for (unsigned i = 0; i < known->count; i++) {
    known->spans[i].start_ns -= later_ns;
    known->spans[i].end_ns -= later_ns;
  }
  known->origin = newest;
  return true;
}

static void keep_newest(struct fikit_spans *known, unsigned most) {
  if (known->count <= most)
    return;
  memmove(known->spans, known->spans + (known->count - most), most * sizeof known->spans[0]);
  known->count = most;
}

void fikit_spans_keep_last(struct fikit_spans *spans) {
  keep_newest(spans, 1);
}

static bool add_spans(struct fikit_timed *const *launches, unsigned count, struct fikit_spans *known) {
  struct fikit_span span;
  if (!comparable(launches, count, known->origin ? known->origin : launches[0]) || !move_origin(known, launches[count - 1]))
    return false;
  keep_newest(known, 2 * FIKIT_TIMED - count);
  for (unsigned i = 0; i < count; i++) {
    struct fikit_timed *timed = launches[i];
    if (!span_of(timed, known->origin, &span))
      return false;
    /* The device was idle from the last end of all completed launches on. */
    timed->gap_ns = -1;
    if (timed->neighbour && known->count > 0)
      timed->gap_ns = not_negative(span.start_ns - known->spans[known->count - 1].end_ns);
    sort_in(known, &span);
  }
  return true;
}

static void read_beside(struct fikit_spans *known) {
  for (unsigned i = 0; i < known->count; i++) {
    struct fikit_span *span = &known->spans[i];
    if (!span->timed)
      continue;
    int64_t left_ns = own_ns(known->spans, i);
    bool whole = left_ns == span->end_ns - span->start_ns; /* then the two events alone say it more exactly */
    span->timed->run_ns = whole ? elapsed_ns(span->timed->start, span->timed->end) : left_ns;
    span->timed = NULL;
  }
}

static void begin_anew(struct fikit_spans *known, const struct fikit_timed *newest) {
  known->origin = newest;
  known->count = newest->run_ns >= 0;
  known->spans[0] = (struct fikit_span){0, newest->run_ns, NULL};
}

void fikit_timed_read(struct fikit_timed *const *launches, unsigned count, const struct fikit_timed *before, bool several,
                      struct fikit_spans *earlier) {
  if (count == 0)
    return;
  if (several && add_spans(launches, count, earlier)) {
    read_beside(earlier);
    return;
  }
  read_in_order(launches, count, before);
  begin_anew(earlier, launches[count - 1]);
}
