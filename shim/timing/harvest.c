/* Reads the events of timed launches that have completed: their times become samples and gaps in the ring. */
#include "base/clock.h"
#include "base/look.h"
#include "base/page.h"
#include "base/symbols.h"
#include "streams/capture.h"
#include "streams/context_end.h"
#include "timing/measure.h"
#include "timing/measure_record.h"

enum {
  TRIES = 3,            /* to calibrate, at once; if other processes use the device, again after a second, two, four, up to a minute */
  MOST_PAUSES = 6,
  UNUSUAL = 4,          /* a call that takes 4 times as long as usual and UNUSUAL_NS more was delayed on the host */
  UNUSUAL_NS = 5000,
  SURE_GAP = 10,        /* a gap 10 times as long as the call after it is known well enough, also if that call was delayed */
  SHORTEST_NS = 1000,   /* no kernel is shorter, also after what the events tell beside it was subtracted */
  MOST_STREAMS = 8,     /* streams whose work in flight is told apart */
};

static const int64_t SECOND_NS = 1000000000;

/* The ring holds what fikitd has not read. In a measured run, ring the doorbell at half and stop at three quarters: the times can wait in their events.
 * In other runs a sample is not worth a system call. */
static bool ring_has_room(struct fikit_device *device) {
  struct fikit_page *page = device->page;
  uint64_t unread = atomic_load_explicit(&page->ring_head, memory_order_relaxed) -
                    atomic_load_explicit(&page->ring_tail, memory_order_acquire);
  if (!device->measure->every)
    return true;
  if (unread >= FIKIT_RING_ENTRIES / 2)
    fikit_doorbell(device);
  return unread < FIKIT_RING_ENTRIES * 3 / 4;
}

/* What the two events tell beside the kernel's run. On an idle stream the kernel reaches the device the later the longer its call takes, and
 * the way was measured with a short one. Where the way is not known, the call stands for it. */
static int64_t beside_ns(const struct fikit_way *way, const struct fikit_timed *timed) {
  if (timed->busy)
    return way->pair_ns;
  if (!way->call_ns)
    return timed->call_ns;
  const int64_t late_ns = timed->call_ns - way->hidden_ns;
  const int64_t ns = way->pair_ns + way->launch_ns + (late_ns > 0 ? late_ns : 0);
  return ns > 0 ? ns : 0;
}

/* A launch call that took unusually long makes the gap before it uncertain by as much; a long gap is still known well enough. It must be kept, since
 * hosts are slow after long gaps above all: else only short gaps would be left. */
static void report(struct fikit_device *device, const struct fikit_timed *before, const struct fikit_timed *timed) {
  const int64_t added_ns = beside_ns(&device->measure->way, timed);
  const bool gap_known = !timed->doubtful || timed->gap_ns / SURE_GAP > timed->call_ns;
  if (before && timed->gap_ns >= 0 && gap_known)
    fikit_page_put(device->page, FIKIT_ENTRY_GAP, before->slot, (uint64_t)(timed->gap_ns + added_ns), (int64_t)before->before);
  if (timed->run_ns < 0)
    return;
  int64_t run_ns = timed->run_ns - added_ns;
  if (run_ns < SHORTEST_NS)
    run_ns = timed->run_ns < SHORTEST_NS ? timed->run_ns : SHORTEST_NS;
  const uint64_t how = timed->busy ? 0 : timed->doubtful ? FIKIT_TIMED_DOUBTFUL : FIKIT_TIMED_IDLE;
  fikit_page_put(device->page, FIKIT_ENTRY_SAMPLE, timed->slot, (uint64_t)run_ns, (int64_t)(timed->before | how));
}

/* Under the mutex. Done once a launch has been timed, while no timed launch is in flight and the gate is open. */
static void calibrate(struct fikit_device *device) {
  struct fikit_measure *measure = device->measure;
  for (const struct fikit_timed *timed = measure->first; timed; timed = timed->next)
    if (!timed->read)
      return;
  if (!measure->first || measure->way.call_ns || !fikit_gate_open(device->page) ||
      (measure->tries >= TRIES && fikit_now_ns() < measure->try_again_ns))
    return;
  if (fikit_calibrate(&measure->bench, &measure->way) || ++measure->tries < TRIES)
    return;
  const int pauses = measure->tries - TRIES;
  measure->try_again_ns = fikit_now_ns() + (SECOND_NS << (pauses < MOST_PAUSES ? pauses : MOST_PAUSES));
}

/* Doubtful: the way to the device is not known, or the call took so long that it included the kernel's loading or a lost processor. */
static bool is_doubtful(const struct fikit_measure *measure, const struct fikit_timed *timed) {
  return !timed->busy &&
         (timed->first || !measure->way.call_ns || timed->call_ns > UNUSUAL * measure->way.call_ns + UNUSUAL_NS);
}

/* Streams with a launch that has not completed, so that no later launch of theirs has either. */
struct unfinished {
  CUstream streams[MOST_STREAMS];
  unsigned count;
};

static bool is_unfinished(const struct unfinished *unfinished, CUstream stream) {
  for (unsigned i = 0; i < unfinished->count; i++)
    if (unfinished->streams[i] == stream)
      return true;
  return false;
}

/* Under the mutex: queries which launches have completed; with several streams also behind one that has not. True: some have, and others are still
 * in flight. */
static bool look_at_completed(struct fikit_measure *measure) {
  struct unfinished unfinished = {.count = 0};
  bool any = false;
  for (struct fikit_timed *timed = measure->first; timed; timed = timed->next) {
    if (timed->completed || is_unfinished(&unfinished, timed->stream))
      continue;
    CUresult result = REAL(cuEventQuery)(timed->end);
    if (result != CUDA_ERROR_NOT_READY) {
      timed->completed = any = true;
      timed->failed = result != CUDA_SUCCESS;
      continue;
    }
    unfinished.streams[unfinished.count++] = timed->stream;
    if (!measure->several || unfinished.count == MOST_STREAMS)
      break;
  }
  return any && unfinished.count > 0;
}

/* Under the mutex. Reads the events of completed launches. With several streams it queries until nothing new has completed: a launch may complete
 * during the query, before others that the query has already seen complete. */
static void read_completed(struct fikit_measure *measure) {
  struct fikit_timed **room = measure->completed_now;
  const struct fikit_timed *before = measure->previous, *before_first = NULL;
  unsigned count = 0;
  bool all = true;
  while (look_at_completed(measure) && measure->several)
    ;
  for (struct fikit_timed *timed = measure->first; timed && (all || measure->several); before = timed, timed = timed->next) {
    all &= timed->completed;
    if (!timed->completed || timed->read)
      continue;
    if (count == 0)
      before_first = before;
    timed->read = true;
    timed->neighbour = fikit_timed_neighbours(before, timed);
    room[count++] = timed;
  }
  fikit_timed_read(room, count, before_first, measure->several, &measure->spans);
  if (all)
    fikit_spans_keep_last(&measure->spans);
}

void fikit_measure_read(struct fikit_device *device) {
  struct fikit_measure *measure = device->measure;
  if (fikit_context_ends())
    return;
  int mode = fikit_capture_relax();
  read_completed(measure);
  calibrate(device);
  fikit_capture_restore(mode);
  while (measure->first && measure->first->read && ring_has_room(device)) {
    struct fikit_timed *timed = measure->first;
    measure->first = timed->next;
    if (!measure->first)
      measure->last = &measure->first;
    atomic_fetch_sub_explicit(&measure->flying, 1, memory_order_relaxed);
    timed->doubtful = is_doubtful(measure, timed);
    report(device, measure->previous, timed);
    fikit_event_pool_put(&measure->free, measure->previous);
    measure->previous = timed;
  }
}

void fikit_measure_harvest(struct fikit_device *device) {
  struct fikit_measure *measure = device->measure;
  if (!measure || atomic_load_explicit(&measure->flying, memory_order_relaxed) == 0 || fikit_capture_anywhere() ||
      !fikit_measure_enter(measure))
    return;
  bool counts = false;
  for (const struct fikit_timed *timed = measure->first; timed && !measure->every; timed = timed->next)
    counts |= !timed->extra;
  int64_t start_ns = counts ? fikit_now_ns() : 0;
  fikit_measure_read(device);
  if (counts)
    fikit_measure_count_cost(measure, start_ns);
  fikit_measure_leave(measure);
}
