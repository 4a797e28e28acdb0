/*
 * A list in the order of the frees, under one lock, which is not held while the driver frees. A look asks about LOOKED of them at most. Those that cannot be freed
 * yet go to the end of the list, so that those behind them have their turn.
 */
#include "memory/late_free.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/nap.h"
#include "base/symbols.h"

#include <pthread.h>
#include <stdlib.h>

enum { LOOKED = 64, MANY = 1024 }; /* beyond MANY a call that allocates or frees may wait */
enum { LEASE_NS = 1000000000, NAP_NS = 250000 };

struct late {
  struct late *next;
  struct fikit_late_free free;
  CUcontext context; /* of the memory */
  uint64_t number;
  bool reached; /* the stream has come to the free, and the mark is gone */
};

_Atomic unsigned fikit_late_frees;

FIKIT_LOCK(keeping);
static struct late *first, **last = &first;
static uint64_t newest;
static uint64_t changes;    /* frees begun and done so far */
static uint64_t given_up_at; /* `changes` when a request last waited in vain */
static const struct fikit_late_order *order; /* written before the first one comes */

/* Under the lock. */
static void append(struct late *late) {
  late->next = NULL;
  *last = late;
  last = &late->next;
}

/* Under the lock: the one behind `place`. */
static struct late *unlink_at(struct late **place) {
  struct late *late = *place;
  *place = late->next;
  if (last == &late->next)
    last = place;
  return late;
}

bool fikit_free_late(const struct fikit_late_free *late, const struct fikit_late_order *by) {
  struct late *made = malloc(sizeof *made);
  if (!made || !fikit_lock_around(&keeping)) {
    free(made);
    return false;
  }
  const CUcontext context = fikit_allocation_context(late->taken);
  *made = (struct late){.free = *late, .context = context ? context : late->context, .number = ++newest};
  order = by;
  append(made);
  changes++;
  atomic_fetch_add_explicit(&fikit_late_frees, 1, memory_order_relaxed);
  fikit_unlock_around(&keeping);
  return true;
}

bool fikit_late_free_has(CUdeviceptr at) {
  bool found = false;
  if (!fikit_late_frees_any() || !fikit_lock_around(&keeping))
    return false;
  for (const struct late *each = first; each && !found; each = each->next)
    found = each->free.at == at;
  fikit_unlock_around(&keeping);
  return found;
}

/* Under the lock: the stream has come to the free, whatever the mark says. */
static void set_reached(struct late *late) {
  if (late->free.mark)
    order->dropped(late->free.mark);
  late->free.mark = NULL;
  late->reached = true;
}

/* Under the lock. Without a mark it is not known. */
static bool has_reached(struct late *late) {
  if (late->free.mark && order->passed(late->free.mark)) {
    late->free.mark = NULL;
    late->reached = true;
  }
  return late->reached;
}

/* Why memory is freed now. PROGRAM_WAITED: it has just waited for the context. AT_ONCE: only without a wait. NEEDED: a request would be refused otherwise. */
enum why { PROGRAM_WAITED, AT_ONCE, NEEDED };

/* Under the lock: cuMemFree would wait for work of the context, which is not allowed for this reason. NEEDED allows a wait for work that goes on by itself, and for work
 * of which the driver says nothing. */
static bool is_too_early(CUcontext context, enum why why, enum fikit_idle *idle) {
  *idle = why == PROGRAM_WAITED ? FIKIT_IDLE_UNKNOWN : order->idle(context);
  return *idle == FIKIT_BUSY || (*idle != FIKIT_IDLE && why == AT_ONCE);
}

/* Under the lock: it is of this context, and its stream may have come to the free; without a mark only an idle context shows it. */
static bool may_have_reached(struct late *late, CUcontext context) {
  return late->context == context && (has_reached(late) || !late->free.mark);
}

/* Under the lock. `left` becomes 0 where none of this context can be freed now. */
static bool may_free(struct late *late, CUcontext context, enum why why, unsigned *left) {
  enum fikit_idle idle;
  if (!may_have_reached(late, context))
    return false;
  if (is_too_early(context, why, &idle)) {
    *left = 0;
    return false;
  }
  if (idle == FIKIT_IDLE && late->free.context == context) /* the stream of the free is idle, too */
    set_reached(late);
  return late->reached;
}

/* Takes the next one of this context that can be freed now out of the list; `left`: how many may still be looked at. */
static struct late *take_freeable(CUcontext context, enum why why, unsigned *left) {
  struct late *found = NULL;
  if (!fikit_lock_around(&keeping))
    return NULL;
  while (first && !found && *left > 0) {
    struct late *late = unlink_at(&first);
    --*left;
    if (may_free(late, context, why, left))
      found = late;
    else
      append(late);
  }
  fikit_unlock_around(&keeping);
  return found;
}

/* Behind the driver's answer: it is forgotten, or goes back into the list. */
static void settle(struct late *late, bool freed) {
  if (freed)
    fikit_freed(late->free.taken, late->free.at, true);
  if (!fikit_lock_around(&keeping))
    return; /* in a signal handler of a thread that holds a lock: the memory is lost to the list */
  if (freed)
    atomic_fetch_sub_explicit(&fikit_late_frees, 1, memory_order_relaxed);
  else
    append(late);
  changes += freed;
  fikit_unlock_around(&keeping);
  if (freed)
    free(late);
}

/* Frees what can be freed; returns how many allocations that was. What the driver refuses is tried again at the next look. Cancellation waits: the memory in the hands of
 * a cancelled thread would be lost. */
static unsigned free_some(CUcontext context, enum why why) {
  const unsigned count = atomic_load_explicit(&fikit_late_frees, memory_order_relaxed);
  unsigned left = count < LOOKED ? count : LOOKED, freed = 0;
  struct late *late;
  int cancelability;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelability);
  while (left > 0 && (late = take_freeable(context, why, &left))) {
    const bool done = order->free(late->free.at);
    settle(late, done);
    freed += done;
    if (!done)
      break;
  }
  pthread_setcancelstate(cancelability, &cancelability);
  return freed;
}

static CUcontext current(void) {
  CUcontext context = NULL;
  return REAL(cuCtxGetCurrent)(&context) == CUDA_SUCCESS ? context : NULL;
}

uint64_t fikit_late_frees_newest(void) {
  uint64_t number = 0;
  if (fikit_late_frees_any() && fikit_lock_around(&keeping)) {
    number = newest;
    fikit_unlock_around(&keeping);
  }
  return number;
}

void fikit_late_frees_synchronised(CUcontext context, uint64_t up_to) {
  if (!up_to || !fikit_lock_around(&keeping))
    return;
  for (struct late *each = first; each; each = each->next)
    if (each->free.context == context && each->number <= up_to)
      set_reached(each);
  fikit_unlock_around(&keeping);
  free_some(context, PROGRAM_WAITED);
}

/* Not after LEASE_NS, nor where a request has waited in vain and nothing was freed since. */
static bool may_wait_on(int64_t *began_ns) {
  const int64_t now_ns = fikit_now_ns();
  if (!fikit_lock_around(&keeping))
    return false;
  const bool waits = given_up_at != changes || *began_ns;
  if (!*began_ns)
    *began_ns = now_ns;
  const bool goes_on = waits && now_ns - *began_ns < LEASE_NS;
  if (!goes_on)
    given_up_at = changes;
  fikit_unlock_around(&keeping);
  return goes_on;
}

static bool has_any_of(CUcontext context) {
  bool found = false;
  if (!fikit_lock_around(&keeping))
    return false;
  for (const struct late *each = first; each && !found; each = each->next)
    found = each->context == context;
  fikit_unlock_around(&keeping);
  return found;
}

bool fikit_late_frees_wait(int64_t *began_ns) {
  const CUcontext context = fikit_late_frees_any() ? current() : NULL;
  if (!context || !has_any_of(context))
    return false;
  if (free_some(context, NEEDED) > 0)
    return true;
  if (!may_wait_on(began_ns))
    return false;
  fikit_nap(NAP_NS);
  return true;
}

void fikit_late_frees_look(void) {
  const CUcontext context = fikit_late_frees_any() ? current() : NULL;
  if (context)
    free_some(context, atomic_load_explicit(&fikit_late_frees, memory_order_relaxed) > MANY ? NEEDED : AT_ONCE);
}

void fikit_late_frees_pass(void) {
  if (fikit_lock_around(&keeping))
    fikit_unlock_around(&keeping);
}

void fikit_late_frees_work_ended(CUcontext context) {
  if (!fikit_lock_around(&keeping))
    return;
  for (struct late *each = first; each; each = each->next)
    if (each->free.context == context)
      set_reached(each);
  if (order)
    order->idle_context_gone(context);
  fikit_unlock_around(&keeping);
}

/* Under the lock: what went with the context, taken out of the list. */
static struct late *take_all_of(CUcontext context) {
  struct late *gone = NULL, **place = &first;
  while (*place) {
    if ((*place)->context != context) {
      place = &(*place)->next;
      continue;
    }
    struct late *late = unlink_at(place);
    set_reached(late);
    late->next = gone;
    gone = late;
    changes++;
    atomic_fetch_sub_explicit(&fikit_late_frees, 1, memory_order_relaxed);
  }
  return gone;
}

void fikit_late_frees_context_gone(CUcontext context) {
  if (!fikit_late_frees_any() || !fikit_lock_around(&keeping))
    return;
  struct late *gone = take_all_of(context);
  fikit_unlock_around(&keeping);
  while (gone) {
    struct late *late = gone;
    gone = late->next;
    fikit_freed(late->free.taken, late->free.at, true);
    free(late);
  }
}

void fikit_late_frees_forget_all(void) {
  first = NULL; /* a thread may have been in the middle of it */
  last = &first;
  atomic_store(&fikit_late_frees, 0);
}
