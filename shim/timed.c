/*
 * An event before a kernel is reached when its stream is, not when the device begins the kernel: with several streams the
 * kernel may still wait there for another stream's, and its events time that wait too. What a kernel takes of the device is
 * then its span less what the spans that ended before it took: exactly what it ran for where the device runs one kernel at a
 * time, and all spans together are as long as the device was at work in any case.
 */
#include "timed.h"
#include "symbols.h"

static const int64_t UNKNOWN = INT64_MIN;

static int64_t between_ns(CUevent from, CUevent to) {
  float ms = 0;
  return REAL(cuEventElapsedTime)(&ms, from, to) == CUDA_SUCCESS ? (int64_t)((double)ms * 1e6) : UNKNOWN;
}

static int64_t elapsed_ns(CUevent from, CUevent to) {
  int64_t ns = between_ns(from, to);
  return ns == UNKNOWN ? -1 : ns > 0 ? ns : 0;
}

/* Of two launches that did not follow each other directly, or of which one waited at the gate, no gap is known. */
static bool neighbours(const struct fikit_timed *before, const struct fikit_timed *timed) {
  return before && !before->failed && before->context == timed->context && before->seq + 1 == timed->seq &&
         before->open && timed->open;
}

/* One stream: kernels run in the order of the launches, and the event before one is reached when it begins. */
static void read_in_order(struct fikit_timed *const *launches, unsigned count, const struct fikit_timed *before) {
  for (unsigned i = 0; i < count; i++) {
    struct fikit_timed *timed = launches[i];
    timed->run_ns = timed->failed ? -1 : elapsed_ns(timed->start, timed->end);
    timed->gap_ns = !timed->failed && neighbours(before, timed) ? elapsed_ns(before->end, timed->start) : -1;
    before = timed;
  }
}

/* What of spans[i] is left of those that ended before it; spans are in the order of their ends. */
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
static bool several_streams(struct fikit_timed *const *launches, unsigned count, const struct fikit_timed *before) {
  const struct fikit_timed *first = before ? before : launches[0];
  bool several = false;
  for (unsigned i = 0; i < count; i++) {
    if (launches[i]->context != first->context || launches[i]->failed)
      return false;
    several |= launches[i]->stream != first->stream;
  }
  return several && !first->failed;
}

/* False: the driver does not say its times. */
static bool span_of(struct fikit_timed *timed, CUevent from, struct fikit_span *span) {
  *span = (struct fikit_span){between_ns(from, timed->start), between_ns(from, timed->end), timed};
  return span->start_ns != UNKNOWN && span->end_ns != UNKNOWN;
}

/* By its end: launches complete nearly in their order. */
static void sort_in(struct fikit_span *spans, unsigned count, const struct fikit_span *span) {
  for (; count > 0 && spans[count - 1].end_ns > span->end_ns; count--)
    spans[count] = spans[count - 1];
  spans[count] = *span;
}

static bool read_beside(struct fikit_timed *const *launches, unsigned count, struct fikit_timed *before,
                        struct fikit_span *spans) {
  CUevent from = launches[0]->start;
  struct fikit_span span;
  unsigned known = 0;
  if (before && !span_of(before, from, &spans[known++]))
    return false;
  for (unsigned i = 0; i < count; i++) {
    struct fikit_timed *timed = launches[i];
    if (!span_of(timed, from, &span))
      return false;
    /* Idle from the last end of all that were launched before it. */
    int64_t gap_ns = known > 0 ? span.start_ns - spans[known - 1].end_ns : 0;
    timed->gap_ns = !neighbours(before, timed) ? -1 : gap_ns > 0 ? gap_ns : 0;
    sort_in(spans, known++, &span);
    before = timed;
  }
  for (unsigned i = 0; i < known; i++) {
    struct fikit_timed *timed = spans[i].timed;
    int64_t left_ns = own_ns(spans, i);
    bool whole = left_ns == spans[i].end_ns - spans[i].start_ns; /* then the two events alone say it more exactly */
    timed->run_ns = whole ? elapsed_ns(timed->start, timed->end) : left_ns;
  }
  return true;
}

void fikit_timed_read(struct fikit_timed *const *launches, unsigned count, struct fikit_timed *before,
                      struct fikit_span *room) {
  if (count == 0)
    return;
  if (!several_streams(launches, count, before) || !read_beside(launches, count, before, room))
    read_in_order(launches, count, before);
}
