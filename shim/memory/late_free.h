/* Converted memory that the program freed in the order of a stream, where the driver frees no managed memory so. cuMemFree would wait for all work of the
 * context, which may stand until the calling thread goes on. So the memory waits here, and counts as held, until its stream has come to the free and the driver
 * can free it without a wait, or in a call in which the program itself waits for the context. It is freed in its own context only, and goes with that. */
#ifndef FIKIT_SHIM_LATE_FREE_H
#define FIKIT_SHIM_LATE_FREE_H

#include "base/idle.h"
#include "memory/allocation.h"

#include <stdbool.h>

/* As streams/mark.h and streams/idle.h have them; `free`: by cuMemFree, unless something captures or a context ends. */
struct fikit_mark;
struct fikit_late_order {
  bool (*passed)(struct fikit_mark *mark);
  void (*dropped)(struct fikit_mark *mark);
  enum fikit_idle (*idle)(CUcontext context);
  void (*idle_context_gone)(CUcontext context);
  bool (*free)(CUdeviceptr at);
};

struct fikit_late_free {
  CUdeviceptr at;
  struct fikit_allocation *taken; /* what fikit_allocation_take said of it */
  CUcontext context;              /* of the stream */
  struct fikit_mark *mark;        /* in the stream, where the memory is freed; NULL: there is none to be had */
};

/* From now on it is ours. False: memory of ours is short, and nothing has changed. */
bool fikit_free_late(const struct fikit_late_free *late, const struct fikit_late_order *order);

extern _Atomic unsigned fikit_late_frees; /* how many there are */

static inline bool fikit_late_frees_any(void) {
  return atomic_load_explicit(&fikit_late_frees, memory_order_relaxed) > 0;
}

/* The memory that begins at `at` is one of them: to the program it is freed. */
bool fikit_late_free_has(CUdeviceptr at);

/* In a call that allocates or frees: those of the current context that need no wait are freed, 64 at most; where there are more than 1,024, also those that need to
 * wait for work of the context that goes on by itself. */
void fikit_late_frees_look(void);

/* Around the program's own wait for all work of this context: the number of the newest, before; those up to it are freed, after. */
uint64_t fikit_late_frees_newest(void);
void fikit_late_frees_synchronised(CUcontext context, uint64_t newest);

/* A request does not fit. True: look again, since some were freed, or may be soon. `began_ns` begins as 0; after a second the answer is false. */
bool fikit_late_frees_wait(int64_t *began_ns);

/* No thread queries an event of theirs when this returns (streams/context_end.h). */
void fikit_late_frees_pass(void);

/* All work of the context is over, with its streams and events. Its memory has gone, too. */
void fikit_late_frees_work_ended(CUcontext context);
void fikit_late_frees_context_gone(CUcontext context);

/* In the child of a fork. */
void fikit_late_frees_forget_all(void);

#endif
