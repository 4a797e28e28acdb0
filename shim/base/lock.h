/*
 * Locks for what is not on the open launch path. A thread inside one of them is not cancelled there, a signal handler
 * that interrupted it is told so instead of waiting for its own thread, and in the child of a fork all of them are free.
 */
#ifndef FIKIT_SHIM_LOCK_H
#define FIKIT_SHIM_LOCK_H

#include <pthread.h>
#include <stdbool.h>

/* A lock of static storage; FIKIT_LOCK_IN_CHILD names one inside of a structure, for the child of a fork. */
#define FIKIT_LOCK(name)                                    \
  static pthread_mutex_t name = PTHREAD_MUTEX_INITIALIZER; \
  FIKIT_LOCK_IN_CHILD(name, &(name))
#define FIKIT_LOCK_IN_CHILD(name, lock) \
  static pthread_mutex_t *const name##_in_child __attribute__((section("fikit_locks"), used)) = lock

/* False: this very thread holds such a lock already (they never nest), so a signal handler of the program interrupted it.
 * Do without what you wanted. */
bool fikit_lock(pthread_mutex_t *lock);
void fikit_unlock(pthread_mutex_t *lock);

/* A lock around others: what is done under it may take one more, by fikit_lock. False: this thread holds any lock. */
bool fikit_lock_around(pthread_mutex_t *lock);
void fikit_unlock_around(pthread_mutex_t *lock);
bool fikit_locked(void); /* by this thread */

/* In the child of a fork: only this thread is left, whoever held them. */
void fikit_locks_free_all(void);

#endif
