#include "base/lock.h"

#include <stdatomic.h>

extern pthread_mutex_t *const __start_fikit_locks[] __attribute__((visibility("hidden")));
extern pthread_mutex_t *const __stop_fikit_locks[] __attribute__((visibility("hidden")));

/* Outer locks come before inner ones, and a thread has at most one of each. */
enum level { INNER, OUTER, LEVELS };

static __thread bool held[LEVELS];
static __thread int cancelability[LEVELS]; /* as it was before */

static void take(pthread_mutex_t *lock, enum level level) {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelability[level]);
  held[level] = true;
  atomic_signal_fence(memory_order_seq_cst); /* a handler sees it before the lock is taken */
  pthread_mutex_lock(lock);
}

static void give_back(pthread_mutex_t *lock, enum level level) {
  int before = cancelability[level];
  pthread_mutex_unlock(lock);
  atomic_signal_fence(memory_order_seq_cst);
  held[level] = false;
  pthread_setcancelstate(before, &before);
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

bool fikit_locked(void) {
  return held[INNER] || held[OUTER];
}

void fikit_locks_free_all(void) {
  for (pthread_mutex_t *const *lock = __start_fikit_locks; lock < __stop_fikit_locks; lock++)
    pthread_mutex_init(*lock, NULL);
  held[INNER] = held[OUTER] = false;
}
