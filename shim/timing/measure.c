/* Which launches are timed, and the events around them. */
#include "timing/measure.h"
#include "base/clock.h"
#include "base/look.h"
#include "base/page.h"
#include "base/symbols.h"
#include "streams/capture.h"
#include "timing/measure_record.h"

#include <stdlib.h>

enum {
  STOCK = 16,           /* pairs of events that are made in advance for samples */
  FIRST_INTERVAL = 8,   /* launches between the first two pairs of samples; doubles from pair to pair */
  MOST_OF_TIME = 400,   /* sampling takes at most 1/400 of the program's time */
  USUAL_NS = 20000,     /* the shim's own calls of a driver that is not slow take less */
};

bool fikit_measure_start(struct fikit_device *device) {
  const struct fikit_page *page = device->page;
  fikit_look_set(device, &device->sample_from, FIKIT_LOOK_NEVER);
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
  fikit_look_set(device, &device->sample_from, measure->planned);
  return true;
}

/* The next launch to be timed is one of `launches`, chosen at random, after `least` more. */
static void plan_among(struct fikit_device *device, uint64_t least, uint64_t launches) {
  struct fikit_measure *measure = device->measure;
  uint64_t seq = atomic_load_explicit(&device->page->launch_seq, memory_order_relaxed);
  measure->random ^= measure->random << 13;
  measure->random ^= measure->random >> 7;
  measure->random ^= measure->random << 17;
  measure->planned = seq + least + measure->random % launches + 1;
  fikit_look_set(device, &device->sample_from, measure->planned);
}

/* The next launch to be timed comes after about `launches` more. */
static void plan_next(struct fikit_device *device, uint64_t launches) {
  plan_among(device, launches / 2, launches + 1);
}

void fikit_measure_first(struct fikit_device *device) {
  struct fikit_measure *measure = device->measure;
  if (!measure || measure->every)
    return;
  atomic_store_explicit(&measure->fresh, true, memory_order_relaxed);
  fikit_look_set(device, &device->sample_from, 0);
}

/* Under the mutex, sampling: is this launch a kernel's first? If that is the only reason to look at it, the plan for the next pair stays. */
static bool is_first(struct fikit_device *device) {
  struct fikit_measure *measure = device->measure;
  if (!atomic_exchange_explicit(&measure->fresh, false, memory_order_relaxed))
    return false;
  fikit_look_set(device, &device->sample_from, measure->planned);
  return true;
}

/* Under the mutex, sampling: is this launch one of a pair? */
static bool in_pair(struct fikit_device *device, int64_t now_ns) {
  struct fikit_measure *measure = device->measure;
  if (atomic_load_explicit(&device->page->launch_seq, memory_order_relaxed) < measure->planned)
    return false;
  uint64_t most = 2 * (uint64_t)device->page->sample_every;
  if (!measure->second && now_ns < measure->not_before_ns) {
    measure->owes = true;
    plan_next(device, measure->interval / 4);
    return false;
  }
  if (measure->owes) { /* The cost is earned while the host waits, and the pair would always be the first launches of a burst. */
    measure->owes = false;
    plan_among(device, 0, atomic_load_explicit(&device->page->launch_seq, memory_order_relaxed) - measure->paired + 1);
    return false;
  }
  measure->paired = atomic_load_explicit(&device->page->launch_seq, memory_order_relaxed);
  measure->second = !measure->second;
  if (measure->second) {
    measure->spent_ns = 0;
  } else {
    measure->interval = measure->interval * 2 < most ? measure->interval * 2 : most;
    plan_next(device, measure->interval);
  }
  return true;
}

/* Under the mutex, sampling: the next pair must wait until the time since start_ns is 1/MOST_OF_TIME of the program's. A thread that lost its
 * processor has not spent that time: so a call counts for at most about twice the one before it. */
void fikit_measure_count_cost(struct fikit_measure *measure, int64_t start_ns) {
  int64_t now_ns = fikit_now_ns();
  int64_t took_ns = now_ns - start_ns, most_ns = 2 * measure->last_spent_ns + USUAL_NS;
  measure->last_spent_ns = took_ns < most_ns ? took_ns : most_ns;
  measure->spent_ns += measure->last_spent_ns;
  measure->not_before_ns = now_ns + measure->spent_ns * MOST_OF_TIME;
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

/* Under the mutex: makes one more pair of events in the current context. False: the driver refuses. */
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
  fikit_event_pool_put(&measure->free, timed);
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

/* Under the mutex: a pair of events that is in no list until the launch has been made; NULL: none is available. */
static struct fikit_timed *take(struct fikit_device *device, CUcontext context) {
  struct fikit_measure *measure = device->measure;
  if (!measure->free)
    fikit_measure_read(device);
  struct fikit_timed *timed = event_pool_take(measure, context);
  if (!timed && measure->every && event_pool_grow(measure, context)) /* a sample is dropped rather than making events here */
    timed = event_pool_take(measure, context);
  return timed;
}

/* Without the mutex: the driver may make a thread wait whose stream is full, and other threads go on meanwhile. */
static bool start(struct fikit_timed *timed, CUstream stream) {
  int mode = fikit_capture_relax();
  timed->busy = REAL(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY;
  fikit_capture_restore(mode);
  return REAL(cuEventRecord)(timed->start, stream) == CUDA_SUCCESS;
}

/* May not be cancelled: nobody would sample any more. */
static struct fikit_timed *begin(struct fikit_device *device, CUcontext context, CUstream stream, bool open) {
  struct fikit_measure *measure = device->measure;
  struct fikit_timed *timed = NULL;
  if (!fikit_measure_enter(measure))
    return NULL;
  int64_t now_ns = measure->every ? 0 : fikit_now_ns();
  const bool first = !measure->every && is_first(device);
  const bool planned = measure->every || in_pair(device, now_ns);
  if (planned || first)
    timed = take(device, context);
  const bool counts = planned && !measure->every;
  fikit_unlock(&measure->mutex);
  const bool started = timed && start(timed, stream);
  if (started) {
    timed->extra = !planned;
    timed->open = open;
    timed->before = fikit_page_before(device->page);
  }
  if ((counts || (timed && !started)) && fikit_lock(&measure->mutex)) {
    if (timed && !started)
      fikit_event_pool_put(&measure->free, timed);
    if (counts)
      fikit_measure_count_cost(measure, now_ns);
    fikit_unlock(&measure->mutex);
  }
  atomic_flag_clear_explicit(&measure->busy, memory_order_release);
  return started ? timed : NULL;
}

struct fikit_timed *fikit_measure_begin(struct fikit_device *device, CUstream stream, bool open) {
  CUcontext context = NULL;
  int cancelability;
  if (fikit_capture_anywhere() || REAL(cuCtxGetCurrent)(&context) != CUDA_SUCCESS)
    return NULL;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelability);
  struct fikit_timed *const timed = begin(device, context, stream, open);
  pthread_setcancelstate(cancelability, &cancelability);
  return timed;
}

bool fikit_measure_end(struct fikit_device *device, struct fikit_timed *timed, CUstream stream, uint32_t slot,
                       uint64_t seq, int64_t called_ns) {
  struct fikit_measure *measure = device->measure;
  int64_t start_ns = fikit_now_ns();
  bool recorded = seq && REAL(cuEventRecord)(timed->end, stream) == CUDA_SUCCESS;
  if (recorded && timed->busy) { /* it still has work: the kernel was on its way before the stream ran dry */
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
    fikit_event_pool_put(&measure->free, timed);
  }
  if (counts)
    fikit_measure_count_cost(measure, start_ns);
  fikit_unlock(&measure->mutex);
  return counts;
}

void fikit_measure_spent(struct fikit_device *device, int64_t start_ns) {
  if (!fikit_lock(&device->measure->mutex))
    return;
  fikit_measure_count_cost(device->measure, start_ns);
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
    fikit_event_pool_put(&measure->free, measure->previous);
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
      fikit_event_pool_put(&measure->bare, &measure->timed[i]);
    }
  if (atomic_load_explicit(&measure->stocked, memory_order_relaxed) == context)
    atomic_store_explicit(&measure->stocked, NULL, memory_order_relaxed);
  if (measure->bench.context == context)
    measure->bench = (struct fikit_bench){0};
  fikit_unlock(&measure->mutex);
}
