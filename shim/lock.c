#include "lock.h"

#include <stdatomic.h>

extern pthread_mutex_t *const __start_fikit_locks[] __attribute__((visibility("hidden")));
extern pthread_mutex_t *const __stop_fikit_locks[] __attribute__((visibility("hidden")));

static __thread bool locked;
static __thread int cancelability;

bool fikit_lock(pthread_mutex_t *lock) {
  if (locked)
    return false;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelability);
  locked = true;
  atomic_signal_fence(memory_order_seq_cst); /* a handler sees it before the lock is taken */
  pthread_mutex_lock(lock);
  return true;
}

void fikit_unlock(pthread_mutex_t *lock) {
  int before = cancelability;
  pthread_mutex_unlock(lock);
  atomic_signal_fence(memory_order_seq_cst);
  locked = false;
  pthread_setcancelstate(before, &before);
}

bool fikit_locked(void) {
  return locked;
}

void fikit_locks_free_all(void) {
  for (pthread_mutex_t *const *lock = __start_fikit_locks; lock < __stop_fikit_locks; lock++)
    pthread_mutex_init(*lock, NULL);
  locked = false;
}
