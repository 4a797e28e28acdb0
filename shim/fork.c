#include "fork.h"
#include "allocation.h"
#include "context.h"
#include "device.h"
#include "event.h"
#include "lock.h"
#include "physical.h"
#include "stream.h"

#include <pthread.h>
#include <stdatomic.h>

static void in_child(void) {
  fikit_locks_free_all();
  fikit_device_forget_all();
  fikit_context_forget_all();
  fikit_stream_forget_all();
  fikit_event_forget_all();
  fikit_allocation_forget_all();
  fikit_physical_forget_all();
}

void fikit_fork_watch(void) {
  static atomic_flag watching = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&watching))
    pthread_atfork(NULL, NULL, in_child);
}
