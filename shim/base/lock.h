/*
 * Locks for what is not on the open launch path. A thread inside one of them is not cancelled there, a signal handler
 * that interrupted it is told so instead of waiting for its own thread, and in the child of a fork all of them are free.
 */
#ifndef FIKIT_SHIM_LOCK_H
#define FIKIT_SHIM_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A lock of static storage; FIKIT_LOCK_IN_CHILD names one inside of a structure, for the child of a fork. */
#define FIKIT_LOCK(name)                                    \
  static pthread_mutex_t name = PTHREAD_MUTEX_INITIALIZER; \
  FIKIT_LOCK_IN_CHILD(name, &(name))
#define FIKIT_LOCK_IN_CHILD(name, lock) \
  static pthread_mutex_t *const name##_in_child __attribute__((section("fikit_locks"), used)) = lock

/* False: this thread holds such a lock already. They never nest, so a signal handler of the program interrupted it: the caller goes on
 * without what it wanted to do. */
bool fikit_lock(pthread_mutex_t *lock);
void fikit_unlock(pthread_mutex_t *lock);

/* An outer lock, under which one more may be taken by fikit_lock. False: this thread holds a lock already. */
bool fikit_lock_around(pthread_mutex_t *lock);
void fikit_unlock_around(pthread_mutex_t *lock);

/* The same, of a lock whose holder may be in a call of the driver's that blocks: false also where he has not let go of it after so long. In the child of a fork its owner sets it free. */
bool fikit_lock_around_for(_Atomic bool *lock, int64_t patience_ns);
void fikit_unlock_around_for(_Atomic bool *lock);
bool fikit_locked(void); /* by this thread */

/* In the child of a fork: free all locks, since the threads that held them do not exist there. */
void fikit_locks_free_all(void);

#endif
