/*
 * The bound is a number of launches. It begins low; at each wait it becomes the number that the device completes in STORED_NS, as this wait shows, at most twice what it was.
 * How far the device is say marks (streams/mark.h) in the streams of the launches, put from half of the bound on, and queries of the other streams.
 *
 * Two threads may be at the bound, and neither has a lock while it sleeps.
 */
#include "gate/bound.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/monitor.h"
#include "base/nap.h"
#include "fikit_rules.h"
#include "streams/capture.h"
#include "streams/mark.h"

#include <stdlib.h>

enum { FIRST = 8, LEAST = 2, MOST = 256, POINTS = 2 };
enum { STORED_NS = 100000000, HOLD_NS = 1000000000, NAP_NS = 50000, LONGEST_NAP_NS = 1000000 };

/* Where a stream is known to be complete up to so many of its launches. */
struct point {
  struct fikit_mark *mark; /* NULL: none */
  struct fikit_stream *entry; /* NULL: the place is free */
  struct fikit_stream_id stream;
  uint64_t issued;
};

static struct fikit_stream taken; /* a place is, and its mark is being put */

struct fikit_bound {
  pthread_mutex_t mutex;
  struct point points[POINTS];
  _Atomic unsigned limit;
  _Atomic bool stuck;
  _Atomic int64_t held_ns; /* for so long was work held that did not run */
};

bool fikit_bound_start(struct fikit_device *device) {
  device->bound = calloc(1, sizeof *device->bound);
  if (!device->bound)
    return false;
  pthread_mutex_init(&device->bound->mutex, NULL);
  device->bound->limit = FIRST;
  fikit_look_set(device, &device->bound_from, device->page->bounded ? FIRST / 2 : FIKIT_LOOK_NEVER);
  return true;
}

/* Before launch number `launches` more than there were. */
static void look_again_after(struct fikit_device *device, uint64_t launches) {
  fikit_look_set(device, &device->bound_from, atomic_load_explicit(&device->page->launch_seq, memory_order_relaxed) + launches);
}

/* Of a point that its stream has come to. */
static bool take_passed(struct fikit_bound *bound, struct point *passed) {
  bool found = false;
  for (struct point *point = bound->points; point < bound->points + POINTS && !found; point++) {
    if (!point->mark || !fikit_mark_passed(point->mark))
      continue;
    *passed = *point;
    *point = (struct point){.mark = NULL};
    found = true;
  }
  return found;
}

/* What the marks and the driver say of the streams. */
static void look_at_streams(struct fikit_device *device) {
  struct fikit_bound *bound = device->bound;
  struct point passed;
  bool found;
  do {
    if (!fikit_lock_around(&bound->mutex))
      return;
    found = take_passed(bound, &passed);
    fikit_unlock_around(&bound->mutex);
    if (found && fikit_stream_is(&passed.stream, passed.entry))
      fikit_stream_drained(passed.entry, passed.issued, 0);
  } while (found);
  fikit_streams_look(device);
}

/* A place for one. */
static struct point *free_point(struct fikit_bound *bound) {
  struct point *found = NULL;
  if (!fikit_lock(&bound->mutex))
    return NULL;
  for (struct point *point = bound->points; point < bound->points + POINTS && !found; point++)
    if (!point->mark && !point->entry)
      found = point;
  if (found)
    found->entry = &taken;
  fikit_unlock(&bound->mutex);
  return found;
}

/* The device will say when it has come to here. */
static void put_point(struct fikit_bound *bound, struct fikit_stream *entry, CUstream stream) {
  struct point *point = free_point(bound);
  if (!point)
    return;
  struct point made = {NULL, entry, fikit_stream_id(entry), atomic_load_explicit(&entry->issued, memory_order_acquire)};
  made.mark = fikit_mark(stream); /* after the count was read: it stands behind all of them */
  if (!fikit_lock(&bound->mutex))
    return; /* one place fewer */
  *point = made.mark ? made : (struct point){.mark = NULL};
  fikit_unlock(&bound->mutex);
}

static uint64_t left_of(const struct fikit_stream *entry) {
  return atomic_load_explicit(&entry->issued, memory_order_acquire) - atomic_load_explicit(&entry->drained, memory_order_acquire);
}

/* So many launches took the device so long. */
static void learn(struct fikit_bound *bound, uint64_t done, int64_t took_ns) {
  const unsigned limit = atomic_load_explicit(&bound->limit, memory_order_relaxed);
  const uint64_t each_ns = (uint64_t)took_ns / done + 1;
  uint64_t next = STORED_NS / each_ns;
  next = next > 2 * limit ? 2 * limit : next;
  next = next > MOST ? MOST : next < LEAST ? LEAST : next;
  atomic_store_explicit(&bound->limit, (unsigned)next, memory_order_relaxed);
}

/* Nobody holds work any more, or nobody may. */
static bool is_over(const struct fikit_device *device) {
  return !fikit_gate_open(device->page) || atomic_load_explicit(&device->gone, memory_order_relaxed) || fikit_capture_anywhere();
}

bool fikit_bound_stuck(const struct fikit_device *device) {
  return atomic_load_explicit(&device->bound->stuck, memory_order_relaxed);
}

static void let_go(struct fikit_device *device, int64_t still_ns) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  atomic_store_explicit(&device->bound->stuck, true, memory_order_relaxed);
  atomic_fetch_add_explicit(&device->bound->held_ns, still_ns, memory_order_relaxed);
  if (atomic_fetch_add_explicit(&device->page->let_go, 1, memory_order_relaxed) == 0 && !atomic_flag_test_and_set(&said))
    fikit_log("this program stores work that does not run: its launches were held for 1 s and go on now. Jobs of higher priority will be delayed by what it has stored.");
}

/* Until less than the bound is unfinished. */
static void wait_for_room(struct fikit_device *device, const struct fikit_stream *entry) {
  struct fikit_bound *bound = device->bound;
  const int64_t start_ns = fikit_now_ns();
  const uint64_t first = fikit_streams_unfinished(device);
  uint64_t unfinished = first, own = left_of(entry);
  int64_t now_ns = start_ns, since_ns = start_ns, nap_ns = NAP_NS; /* since_ns: the newest progress */
  while (unfinished >= atomic_load_explicit(&bound->limit, memory_order_relaxed) && !is_over(device)) {
    const int64_t still_ns = now_ns - since_ns;
    if (still_ns > LONGEST_NAP_NS && still_ns + atomic_load_explicit(&bound->held_ns, memory_order_relaxed) >= HOLD_NS) {
      let_go(device, still_ns);
      return;
    }
    fikit_nap(nap_ns);
    nap_ns = nap_ns < LONGEST_NAP_NS / 2 ? nap_ns * 5 / 4 : nap_ns;
    fikit_monitor_look(device, FIKIT_LOOK_WAITING_NS);
    look_at_streams(device);
    now_ns = fikit_now_ns();
    const uint64_t left = fikit_streams_unfinished(device), own_left = left_of(entry);
    if (own ? own_left < own : left < unfinished)
      since_ns = now_ns;
    unfinished = left;
    own = own_left;
    if (unfinished < first)
      learn(bound, first - unfinished, now_ns - start_ns);
  }
}

void fikit_bound_wait(struct fikit_device *device, struct fikit_stream *entry, CUstream stream) {
  struct fikit_bound *bound = device->bound;
  unsigned limit = atomic_load_explicit(&bound->limit, memory_order_relaxed);
  if (is_over(device) || fikit_locked()) { /* a signal handler's launch waits for nobody */
    look_again_after(device, limit / 2);
    return;
  }
  if (fikit_streams_unfinished(device) >= limit) {
    look_at_streams(device);
    wait_for_room(device, entry);
    limit = atomic_load_explicit(&bound->limit, memory_order_relaxed);
  }
  const uint64_t unfinished = fikit_streams_unfinished(device);
  if (unfinished < limit)
    atomic_store_explicit(&bound->stuck, false, memory_order_relaxed);
  if (unfinished >= limit / 2 && !fikit_bound_stuck(device))
    put_point(bound, entry, stream);
  const uint64_t room = unfinished < limit ? limit - unfinished : limit;
  look_again_after(device, room > 8 ? room / 4 : room > 2 ? room / 2 : 1);
}
