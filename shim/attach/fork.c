#include "attach/fork.h"
#include "memory/allocation.h"
#include "memory/convert.h"
#include "memory/late_free.h"
#include "memory/managed_pool.h"
#include "streams/context_end.h"
#include "base/device.h"
#include "hooks/event.h"
#include "streams/idle.h"
#include "streams/mark.h"
#include "base/lock.h"
#include "attach/mps.h"
#include "gate/carry.h"
#include "gate/move.h"
#include "memory/physical.h"
#include "streams/stream.h"

#include <stdatomic.h>

/* What glibc's pthread_atfork calls, by a name that a program of another C library (musl) does not have to have. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library)
    __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

static void in_child(void) {
  fikit_locks_free_all();
  fikit_device_forget_all();
  fikit_mps_forget();
  fikit_context_forget_all();
  fikit_stream_forget_all();
  fikit_event_forget_all();
  fikit_allocation_forget_all();
  fikit_convert_forget_all();
  fikit_move_forget_all();
  fikit_plan_forget_all();
  fikit_managed_pool_forget_all();
  fikit_marks_forget_all();
  fikit_late_frees_forget_all();
  fikit_idle_forget_all();
  fikit_physical_forget_all();
}

void fikit_fork_watch(void) {
  static atomic_flag watching = ATOMIC_FLAG_INIT;
  if (__register_atfork && !atomic_flag_test_and_set(&watching))
    __register_atfork(NULL, NULL, in_child, &__dso_handle);
}
