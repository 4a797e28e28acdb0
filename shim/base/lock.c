#include "base/lock.h"

#include "base/nap.h"
#include "base/clock.h"

#include <sched.h>
#include <stdatomic.h>

enum { SOON_NS = 100000, NAP_NS = 50000 };

extern pthread_mutex_t *const __start_fikit_locks[] __attribute__((visibility("hidden"), weak)); /* nowhere, in a program without a lock */
extern pthread_mutex_t *const __stop_fikit_locks[] __attribute__((visibility("hidden"), weak));

/* A thread takes at most one outer lock and then at most one inner one, in this order. */
enum level { INNER, OUTER, LEVELS };

static __thread bool held[LEVELS];
static __thread int cancelability[LEVELS]; /* the thread's state before the lock */

static void begin(enum level level) {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelability[level]);
  held[level] = true;
  atomic_signal_fence(memory_order_seq_cst); /* a signal handler sees the mark before the lock is taken */
}

static void end(enum level level) {
  int before = cancelability[level];
  atomic_signal_fence(memory_order_seq_cst);
  held[level] = false;
  pthread_setcancelstate(before, &before);
}

static void take(pthread_mutex_t *lock, enum level level) {
  begin(level);
  pthread_mutex_lock(lock);
}

static void give_back(pthread_mutex_t *lock, enum level level) {
  pthread_mutex_unlock(lock);
  end(level);
}

bool fikit_lock(pthread_mutex_t *lock) {
  if (held[INNER])
    return false;
  take(lock, INNER);
  return true;
}

void fikit_unlock(pthread_mutex_t *lock) {
  give_back(lock, INNER);
}

bool fikit_lock_around(pthread_mutex_t *lock) {
  if (fikit_locked())
    return false;
  take(lock, OUTER);
  return true;
}

void fikit_unlock_around(pthread_mutex_t *lock) {
  give_back(lock, OUTER);
}

static bool is_taken(_Atomic bool *lock) {
  return !atomic_exchange_explicit(lock, true, memory_order_acquire);
}

/* Looks again and again: pthread_mutex_timedlock goes by a clock that people set, and in glibc 2.28 it is not libc's. */
static bool taken_in_time(_Atomic bool *lock, int64_t patience_ns) {
  if (is_taken(lock))
    return true;
  const int64_t from_ns = fikit_now_ns();
  int64_t waited_ns;
  while ((waited_ns = fikit_now_ns() - from_ns) < patience_ns) {
    if (waited_ns < SOON_NS)
      sched_yield();
    else
      fikit_nap(NAP_NS);
    if (is_taken(lock))
      return true;
  }
  return false;
}

bool fikit_lock_around_for(_Atomic bool *lock, int64_t patience_ns) {
  if (fikit_locked())
    return false;
  begin(OUTER);
  const bool taken = taken_in_time(lock, patience_ns);
  if (!taken)
    end(OUTER);
  return taken;
}

void fikit_unlock_around_for(_Atomic bool *lock) {
  atomic_store_explicit(lock, false, memory_order_release);
  end(OUTER);
}

bool fikit_locked(void) {
  return held[INNER] || held[OUTER];
}

void fikit_locks_free_all(void) {
  for (pthread_mutex_t *const *lock = __start_fikit_locks; lock < __stop_fikit_locks; lock++)
    pthread_mutex_init(*lock, NULL);
  held[INNER] = held[OUTER] = false;
}
