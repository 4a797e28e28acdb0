#include "measure.h"
#include "capture.h"
#include "clock.h"
#include "page.h"
#include "symbols.h"

#include <stdlib.h>

enum { TIMED = 4096 }; /* launches in flight that can be timed; a driver's queue holds fewer */

struct fikit_timed {
  CUevent start, end; /* NULL: not created */
  CUcontext context;  /* of the events */
  uint32_t slot;
  struct fikit_timed *next; /* in `free` or `flight` */
};

struct fikit_measure {
  pthread_mutex_t mutex;
  unsigned created; /* of `timed`, from the start */
  struct fikit_timed *free;
  struct fikit_timed *first, **last; /* in flight, in launch order */
  struct fikit_timed *previous;      /* last one harvested: the gap behind it is still open */
  struct fikit_timed timed[TIMED];
};

struct fikit_measure *fikit_measure_new(void) {
  struct fikit_measure *measure = calloc(1, sizeof *measure);
  if (measure) {
    pthread_mutex_init(&measure->mutex, NULL);
    measure->last = &measure->first;
  }
  return measure;
}

static void give_back(struct fikit_measure *measure, struct fikit_timed *timed) {
  if (timed) {
    timed->next = measure->free;
    measure->free = timed;
  }
}

/* A gap behind a launch that is not followed by a timed one is unknown. */
static void break_chain(struct fikit_measure *measure) {
  give_back(measure, measure->previous);
  measure->previous = NULL;
}

static int64_t elapsed_ns(CUevent from, CUevent to) {
  float ms = 0;
  if (REAL(cuEventElapsedTime)(&ms, from, to) != CUDA_SUCCESS)
    return -1;
  return ms > 0 ? (int64_t)((double)ms * 1e6) : 0; /* overlapping streams: no gap */
}

/* The ring holds what fikitd has not read. Ring at half; at three quarters stop, the samples can wait in their events. */
static bool ring_has_room(struct fikit_device *device) {
  struct fikit_page *page = device->page;
  uint64_t unread = atomic_load_explicit(&page->ring_head, memory_order_relaxed) -
                    atomic_load_explicit(&page->ring_tail, memory_order_acquire);
  if (unread >= FIKIT_RING_ENTRIES / 2)
    fikit_doorbell(device);
  return unread < FIKIT_RING_ENTRIES * 3 / 4;
}

static void report(struct fikit_device *device, const struct fikit_timed *before, const struct fikit_timed *timed) {
  int64_t now_ns = fikit_now_ns();
  int64_t gap_ns = before && before->context == timed->context ? elapsed_ns(before->end, timed->start) : -1;
  int64_t run_ns = elapsed_ns(timed->start, timed->end);
  if (gap_ns >= 0)
    fikit_page_put(device->page, FIKIT_ENTRY_GAP, before->slot, (uint64_t)gap_ns, now_ns);
  if (run_ns >= 0)
    fikit_page_put(device->page, FIKIT_ENTRY_SAMPLE, timed->slot, (uint64_t)run_ns, now_ns);
}

/* Under the mutex. */
static void harvest(struct fikit_device *device) {
  struct fikit_measure *measure = device->measure;
  while (measure->first && ring_has_room(device)) {
    struct fikit_timed *timed = measure->first;
    CUresult result = REAL(cuEventQuery)(timed->end);
    if (result == CUDA_ERROR_NOT_READY)
      return;
    measure->first = timed->next;
    if (!measure->first)
      measure->last = &measure->first;
    if (result == CUDA_SUCCESS)
      report(device, measure->previous, timed);
    break_chain(measure);
    if (result == CUDA_SUCCESS)
      measure->previous = timed;
    else
      give_back(measure, timed);
  }
}

void fikit_measure_harvest(struct fikit_device *device) {
  if (!device->measure || fikit_capture_anywhere())
    return;
  pthread_mutex_lock(&device->measure->mutex);
  harvest(device);
  pthread_mutex_unlock(&device->measure->mutex);
}

static struct fikit_timed *take(struct fikit_measure *measure, CUcontext context) {
  for (struct fikit_timed **link = &measure->free; *link; link = &(*link)->next)
    if ((*link)->context == context) {
      struct fikit_timed *timed = *link;
      *link = timed->next;
      return timed;
    }
  if (measure->created == TIMED)
    return NULL;
  struct fikit_timed *timed = &measure->timed[measure->created];
  if (REAL(cuEventCreate)(&timed->start, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
      REAL(cuEventCreate)(&timed->end, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
    return NULL;
  timed->context = context;
  measure->created++;
  return timed;
}

struct fikit_timed *fikit_measure_begin(struct fikit_device *device, CUstream stream) {
  struct fikit_measure *measure = device->measure;
  CUcontext context = NULL;
  if (fikit_capture_anywhere() || REAL(cuCtxGetCurrent)(&context) != CUDA_SUCCESS)
    return NULL;
  pthread_mutex_lock(&measure->mutex);
  if (!measure->free)
    harvest(device);
  struct fikit_timed *timed = take(measure, context);
  if (timed && REAL(cuEventRecord)(timed->start, stream) != CUDA_SUCCESS) {
    give_back(measure, timed);
    timed = NULL;
  }
  if (!timed)
    break_chain(measure);
  pthread_mutex_unlock(&measure->mutex);
  return timed;
}

void fikit_measure_end(struct fikit_device *device, struct fikit_timed *timed, CUstream stream, uint32_t slot,
                       bool accepted) {
  struct fikit_measure *measure = device->measure;
  bool recorded = accepted && REAL(cuEventRecord)(timed->end, stream) == CUDA_SUCCESS;
  pthread_mutex_lock(&measure->mutex);
  if (recorded) {
    timed->slot = slot;
    timed->next = NULL;
    *measure->last = timed;
    measure->last = &timed->next;
  } else {
    give_back(measure, timed);
  }
  pthread_mutex_unlock(&measure->mutex);
}

/* Its events are gone. Entries of other contexts that were in flight are given up too: this happens at the end. */
void fikit_measure_forget_context(struct fikit_device *device, CUcontext context) {
  struct fikit_measure *measure = device->measure;
  if (!measure)
    return;
  pthread_mutex_lock(&measure->mutex);
  measure->previous = NULL;
  measure->free = measure->first = NULL;
  measure->last = &measure->first;
  bool others = false;
  for (unsigned i = 0; i < measure->created; i++)
    others = others || measure->timed[i].context != context;
  if (!others)
    measure->created = 0;
  pthread_mutex_unlock(&measure->mutex);
}

