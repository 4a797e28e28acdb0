#include "timing/measure.h"
#include "timing/calibrate.h"
#include "streams/capture.h"
#include "base/clock.h"
#include "streams/context_end.h"
#include "base/lock.h"
#include "base/page.h"
#include "base/symbols.h"
#include "timing/event_timing.h"

#include <stdlib.h>

enum {
  STOCK = 16,           /* of those that can be timed, made in advance for samples */
  FIRST_INTERVAL = 8,   /* launches between the first two pairs of samples; doubles from pair to pair */
  MOST_OF_TIME = 400,   /* sampling takes at most one part in so many of the program's time */
  USUAL_NS = 20000,     /* a call of ours takes less, on a driver that is not slow */
  TRIES = 3,            /* to calibrate, at once; then others may have the device: again after a second, two, four, up to a minute */
  MOST_PAUSES = 6,
  UNUSUAL = 4,          /* a call that takes so many times as long as usual, and some more, was held up on the host */
  UNUSUAL_NS = 5000,
  SURE_GAP = 10,        /* so many times as long as the call behind it, a gap is known whatever held that up */
  SHORTEST_NS = 1000,   /* no kernel is shorter, whatever was reckoned off */
  MOST_STREAMS = 8,     /* whose work in flight is told apart */
};

static const int64_t SECOND_NS = 1000000000;

struct fikit_measure {
  pthread_mutex_t mutex;
  bool every;                        /* --fikit-measure: not sampling */
  _Atomic unsigned flying;           /* launches in flight */
  unsigned used;                     /* of `timed`, from the start */
  struct fikit_timed *bare, *free;   /* whose events are gone; that can be used */
  struct fikit_timed *first, **last; /* in flight, in launch order */
  struct fikit_timed *previous;      /* last one harvested: the gap behind it is still open */
  CUstream stream;                   /* of the newest launch */
  bool several;                      /* there was another one */

  /* Sampling. No launch and no synchronisation waits for another thread's sample: it goes without. */
  atomic_flag busy;
  bool second;           /* the next launch is the second one of a pair */
  uint64_t interval;     /* launches between pairs, on average; grows to twice sample_every */
  uint64_t random;       /* so that a program's own period does not decide what is sampled */
  int64_t spent_ns;      /* by the pair so far */
  int64_t last_spent_ns; /* by the last call */
  int64_t not_before_ns; /* of the next pair */
  uint64_t planned;      /* launch_seq from which on it is due */
  _Atomic bool fresh;    /* a kernel has its first launch now, which is timed besides */
  _Atomic(CUcontext) stocked;

  struct fikit_way way; /* of launches on idle streams, in the first context in which that had to be known; 0: not known */
  int tries;
  int64_t try_again_ns;
  struct fikit_timed timed[FIKIT_TIMED];
  struct fikit_timed *completed_now[FIKIT_TIMED];
  struct fikit_spans spans;
};

static void event_pool_put(struct fikit_timed **list, struct fikit_timed *timed) {
  if (timed) {
    timed->next = *list;
    *list = timed;
  }
}

bool fikit_measure_start(struct fikit_device *device) {
  const struct fikit_page *page = device->page;
  atomic_store_explicit(&device->time_from, UINT64_MAX, memory_order_relaxed);
  if (!page->measure && !page->sample_every)
    return true;
  struct fikit_measure *measure = device->measure = calloc(1, sizeof *measure);
  if (!measure)
    return false;
  pthread_mutex_init(&measure->mutex, NULL);
  device->stream_found = fikit_measure_stock;
  measure->every = page->measure;
  measure->last = &measure->first;
  measure->interval = FIRST_INTERVAL;
  measure->random = (uint64_t)fikit_now_ns() | 1;
  measure->planned = measure->every ? 0 : 1; /* the first pair begins with the second launch */
  atomic_store_explicit(&device->time_from, measure->planned, memory_order_relaxed);
  return true;
}

static bool enter(struct fikit_measure *measure) {
  if (!measure->every && atomic_flag_test_and_set_explicit(&measure->busy, memory_order_acquire))
    return false;
  if (fikit_lock(&measure->mutex))
    return true;
  atomic_flag_clear_explicit(&measure->busy, memory_order_release);
  return false;
}

static void leave(struct fikit_measure *measure) {
  fikit_unlock(&measure->mutex);
  atomic_flag_clear_explicit(&measure->busy, memory_order_release);
}

/* About `launches` from now on, the next one may be timed. */
static void plan_next(struct fikit_device *device, uint64_t launches) {
  struct fikit_measure *measure = device->measure;
  uint64_t seq = atomic_load_explicit(&device->page->launch_seq, memory_order_relaxed);
  measure->random ^= measure->random << 13;
  measure->random ^= measure->random >> 7;
  measure->random ^= measure->random << 17;
  measure->planned = seq + launches / 2 + measure->random % (launches + 1) + 1;
  atomic_store_explicit(&device->time_from, measure->planned, memory_order_relaxed);
}

void fikit_measure_first(struct fikit_device *device) {
  struct fikit_measure *measure = device->measure;
  if (!measure || measure->every)
    return;
  atomic_store_explicit(&measure->fresh, true, memory_order_relaxed);
  atomic_store_explicit(&device->time_from, 0, memory_order_relaxed);
}

/* Under the mutex, sampling: is this launch a kernel's first? If only because of that we are asked, the plan stands. */
static bool is_first(struct fikit_device *device) {
  struct fikit_measure *measure = device->measure;
  if (!atomic_exchange_explicit(&measure->fresh, false, memory_order_relaxed))
    return false;
  atomic_store_explicit(&device->time_from, measure->planned, memory_order_relaxed);
  return true;
}

/* Under the mutex, sampling: is this launch one of a pair? */
static bool in_pair(struct fikit_device *device, int64_t now_ns) {
  struct fikit_measure *measure = device->measure;
  if (atomic_load_explicit(&device->page->launch_seq, memory_order_relaxed) < measure->planned)
    return false;
  uint64_t most = 2 * (uint64_t)device->page->sample_every;
  if (!measure->second && now_ns < measure->not_before_ns) {
    plan_next(device, measure->interval / 4);
    return false;
  }
  measure->second = !measure->second;
  if (measure->second) {
    measure->spent_ns = 0;
  } else {
    measure->interval = measure->interval * 2 < most ? measure->interval * 2 : most;
    plan_next(device, measure->interval);
  }
  return true;
}

/* Under the mutex, sampling: what began at start_ns is to be earned before the next pair. A thread that lost its processor
 * meanwhile has not spent that time: only what is slow again and again is taken for slow. */
static void count_cost(struct fikit_measure *measure, int64_t start_ns) {
  int64_t now_ns = fikit_now_ns();
  int64_t took_ns = now_ns - start_ns, most_ns = 2 * measure->last_spent_ns + USUAL_NS;
  measure->last_spent_ns = took_ns < most_ns ? took_ns : most_ns;
  measure->spent_ns += measure->last_spent_ns;
  measure->not_before_ns = now_ns + measure->spent_ns * MOST_OF_TIME;
}

/* The ring holds what fikitd has not read. Measuring, ring at half; at three quarters stop, the samples can wait in their
 * events. A few samples more or less are not worth a system call. */
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

/* A launch that took its host unusually long blurs the gap before it by as much, and a long gap little. Hosts are slow after long
 * ones above all: without these the gaps that are left would be the short ones. */
static void report(struct fikit_device *device, const struct fikit_timed *before, const struct fikit_timed *timed) {
  const int64_t way_ns = timed->busy ? 0 : timed->doubtful ? timed->call_ns : device->measure->way.launch_ns;
  const bool gap_known = !timed->doubtful || timed->gap_ns / SURE_GAP > timed->call_ns;
  if (before && timed->gap_ns >= 0 && gap_known)
    fikit_page_put(device->page, FIKIT_ENTRY_GAP, before->slot, (uint64_t)(timed->gap_ns + way_ns), (int64_t)before->before);
  if (timed->run_ns < 0)
    return;
  int64_t run_ns = timed->run_ns - way_ns;
  if (run_ns < SHORTEST_NS)
    run_ns = timed->run_ns < SHORTEST_NS ? timed->run_ns : SHORTEST_NS;
  const uint64_t how = timed->busy ? 0 : timed->doubtful ? FIKIT_TIMED_DOUBTFUL : FIKIT_TIMED_IDLE;
  fikit_page_put(device->page, FIKIT_ENTRY_SAMPLE, timed->slot, (uint64_t)run_ns, (int64_t)(timed->before | how));
}

/* Under the mutex. Once there is a launch to be corrected, while none that is timed is under way, nor it is another job's turn. */
static void calibrate(struct fikit_device *device) {
  struct fikit_measure *measure = device->measure;
  bool wanted = false;
  for (const struct fikit_timed *timed = measure->first; timed; timed = timed->next) {
    if (!timed->read)
      return;
    wanted |= !timed->busy;
  }
  if (!wanted || measure->way.call_ns || !fikit_gate_open(device->page) ||
      (measure->tries >= TRIES && fikit_now_ns() < measure->try_again_ns))
    return;
  if (fikit_calibrate(&measure->way) || ++measure->tries < TRIES)
    return;
  const int pauses = measure->tries - TRIES;
  measure->try_again_ns = fikit_now_ns() + (SECOND_NS << (pauses < MOST_PAUSES ? pauses : MOST_PAUSES));
}

/* The way to the device is not known; or there was loading, or a host that lost its processor, between the start and the launch. */
static bool is_doubtful(const struct fikit_measure *measure, const struct fikit_timed *timed) {
  return !timed->busy &&
         (timed->first || !measure->way.call_ns || timed->call_ns > UNUSUAL * measure->way.call_ns + UNUSUAL_NS);
}

/* Streams of which a launch has not completed: nor have those behind it. */
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

/* Under the mutex: a look at who has completed; of several streams, also at those launched behind one that has not. True: there
 * was somebody, and others are still in flight. */
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

/* Under the mutex. Reads the events of the launches that have completed. What completed while we looked may have done so
 * before some that we saw: of several streams, until there is nothing new. */
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

/* Under the mutex. */
static void harvest(struct fikit_device *device) {
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
    event_pool_put(&measure->free, measure->previous);
    measure->previous = timed;
  }
}

void fikit_measure_harvest(struct fikit_device *device) {
  struct fikit_measure *measure = device->measure;
  if (!measure || atomic_load_explicit(&measure->flying, memory_order_relaxed) == 0 || fikit_capture_anywhere() ||
      !enter(measure))
    return;
  bool counts = false;
  for (const struct fikit_timed *timed = measure->first; timed && !measure->every; timed = timed->next)
    counts |= !timed->extra;
  int64_t start_ns = counts ? fikit_now_ns() : 0;
  harvest(device);
  if (counts)
    count_cost(measure, start_ns);
  leave(measure);
}

static bool two_events(CUevent *start, CUevent *end) {
  int mode = fikit_capture_relax();
  bool made = REAL(cuEventCreate)(start, CU_EVENT_DEFAULT) == CUDA_SUCCESS;
  if (made && REAL(cuEventCreate)(end, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
    REAL(cuEventDestroy_v2)(*start);
    made = false;
  }
  fikit_capture_restore(mode);
  return made;
}

/* Under the mutex: one more that can be timed, in the current context. False when that cannot be. */
static bool event_pool_grow(struct fikit_measure *measure, CUcontext context) {
  CUevent start, end;
  if ((!measure->bare && measure->used == FIKIT_TIMED) || !two_events(&start, &end))
    return false;
  struct fikit_timed *timed = measure->bare;
  if (timed)
    measure->bare = timed->next;
  else
    timed = &measure->timed[measure->used++];
  *timed = (struct fikit_timed){.start = start, .end = end, .context = context};
  event_pool_put(&measure->free, timed);
  return true;
}

/* Under the mutex. */
static struct fikit_timed *event_pool_take(struct fikit_measure *measure, CUcontext context) {
  for (struct fikit_timed **link = &measure->free; *link; link = &(*link)->next)
    if ((*link)->context == context) {
      struct fikit_timed *timed = *link;
      *link = timed->next;
      return timed;
    }
  return NULL;
}

/* Under the mutex: one whose start was recorded; NULL when there is none to be had. */
static struct fikit_timed *start(struct fikit_device *device, CUcontext context, CUstream stream) {
  struct fikit_measure *measure = device->measure;
  if (!measure->free)
    harvest(device);
  struct fikit_timed *timed = event_pool_take(measure, context);
  if (!timed && measure->every && event_pool_grow(measure, context)) /* samples do without rather than make events here */
    timed = event_pool_take(measure, context);
  if (!timed)
    return NULL;
  int mode = fikit_capture_relax();
  timed->busy = REAL(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY;
  fikit_capture_restore(mode);
  if (REAL(cuEventRecord)(timed->start, stream) != CUDA_SUCCESS) {
    event_pool_put(&measure->free, timed);
    timed = NULL;
  }
  return timed;
}

struct fikit_timed *fikit_measure_begin(struct fikit_device *device, CUstream stream, bool open) {
  struct fikit_measure *measure = device->measure;
  struct fikit_timed *timed = NULL;
  CUcontext context = NULL;
  if (fikit_capture_anywhere() || REAL(cuCtxGetCurrent)(&context) != CUDA_SUCCESS)
    return NULL;
  if (!enter(measure))
    return NULL;
  int64_t now_ns = measure->every ? 0 : fikit_now_ns();
  const bool first = !measure->every && is_first(device);
  const bool planned = measure->every || in_pair(device, now_ns);
  if (planned || first) {
    timed = start(device, context, stream);
    if (timed) {
      timed->extra = !planned;
      timed->open = open;
      timed->before = fikit_page_before(device->page);
    }
    if (planned && !measure->every)
      count_cost(measure, now_ns);
  }
  leave(measure);
  return timed;
}

bool fikit_measure_end(struct fikit_device *device, struct fikit_timed *timed, CUstream stream, uint32_t slot,
                       uint64_t seq, int64_t called_ns) {
  struct fikit_measure *measure = device->measure;
  int64_t start_ns = fikit_now_ns();
  bool recorded = seq && REAL(cuEventRecord)(timed->end, stream) == CUDA_SUCCESS;
  if (recorded && timed->busy) { /* still: then the kernel was on its way in time */
    int mode = fikit_capture_relax();
    timed->busy = REAL(cuEventQuery)(timed->start) == CUDA_ERROR_NOT_READY;
    fikit_capture_restore(mode);
  }
  if (!fikit_lock(&measure->mutex))
    return false; /* one pair of events fewer */
  const bool counts = !measure->every && !timed->extra;
  if (recorded) {
    timed->slot = slot;
    timed->seq = seq;
    timed->call_ns = start_ns - called_ns;
    timed->first = atomic_load_explicit(&device->page->slot_launches[slot], memory_order_relaxed) <= 1;
    timed->stream = stream;
    timed->completed = timed->read = false;
    timed->next = NULL;
    measure->several |= measure->stream && measure->stream != stream;
    measure->stream = stream;
    *measure->last = timed;
    measure->last = &timed->next;
    atomic_fetch_add_explicit(&measure->flying, 1, memory_order_relaxed);
  } else {
    event_pool_put(&measure->free, timed);
  }
  if (counts)
    count_cost(measure, start_ns);
  fikit_unlock(&measure->mutex);
  return counts;
}

void fikit_measure_spent(struct fikit_device *device, int64_t start_ns) {
  if (!fikit_lock(&device->measure->mutex))
    return;
  count_cost(device->measure, start_ns);
  fikit_unlock(&device->measure->mutex);
}

void fikit_measure_stock(struct fikit_device *device) {
  struct fikit_measure *measure = device->measure;
  CUcontext context = NULL;
  if (!measure || measure->every || fikit_capture_anywhere() || REAL(cuCtxGetCurrent)(&context) != CUDA_SUCCESS ||
      atomic_load_explicit(&measure->stocked, memory_order_relaxed) == context)
    return;
  if (!fikit_lock(&measure->mutex))
    return;
  unsigned have = 0;
  for (unsigned i = 0; i < measure->used; i++)
    have += measure->timed[i].context == context;
  while (have < STOCK && event_pool_grow(measure, context))
    have++;
  atomic_store_explicit(&measure->stocked, context, memory_order_relaxed);
  fikit_unlock(&measure->mutex);
}

/* Take what belongs to `context` out of a list; returns where the list ends. */
static struct fikit_timed **without(struct fikit_timed **list, CUcontext context) {
  while (*list) {
    if ((*list)->context == context)
      *list = (*list)->next;
    else
      list = &(*list)->next;
  }
  return list;
}

void fikit_measure_pass(struct fikit_device *device) {
  struct fikit_measure *measure = device->measure;
  if (measure && fikit_lock(&measure->mutex))
    fikit_unlock(&measure->mutex);
}

/* Its events are gone with it. */
void fikit_measure_forget_context(struct fikit_device *device, CUcontext context) {
  struct fikit_measure *measure = device->measure;
  if (!measure || !fikit_lock(&measure->mutex))
    return;
  if (measure->previous && measure->previous->context != context)
    event_pool_put(&measure->free, measure->previous);
  measure->previous = NULL;
  measure->spans.origin = NULL;
  measure->spans.count = 0;
  without(&measure->free, context);
  measure->last = without(&measure->first, context);
  unsigned flying = 0;
  for (const struct fikit_timed *timed = measure->first; timed; timed = timed->next)
    flying++;
  atomic_store_explicit(&measure->flying, flying, memory_order_relaxed);
  for (unsigned i = 0; i < measure->used; i++)
    if (measure->timed[i].context == context) {
      measure->timed[i].context = NULL;
      event_pool_put(&measure->bare, &measure->timed[i]);
    }
  if (atomic_load_explicit(&measure->stocked, memory_order_relaxed) == context)
    atomic_store_explicit(&measure->stocked, NULL, memory_order_relaxed);
  fikit_unlock(&measure->mutex);
}
