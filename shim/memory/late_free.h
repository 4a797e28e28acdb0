/* Converted memory that the program freed in the order of a stream, where the driver cannot free managed memory in that order. cuMemFree would wait for all work of the
 * context, which may itself wait for the calling thread. So the memory is kept here, and counts as held, until its stream has come to the free and the driver can
 * free it without a wait, or until the program itself waits for the context. It is freed in its own context only, and goes with that. */
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
  struct fikit_mark *mark;        /* in the stream, where the memory is freed; NULL: none could be made */
};

/* Keeps it until it can be freed. False: the shim has no memory for that, and nothing has changed. */
bool fikit_free_late(const struct fikit_late_free *late, const struct fikit_late_order *order);

extern _Atomic unsigned fikit_late_frees; /* how many there are */

static inline bool fikit_late_frees_any(void) {
  return atomic_load_explicit(&fikit_late_frees, memory_order_relaxed) > 0;
}

/* The memory that begins at `at` is kept here: the program has freed it. */
bool fikit_late_free_has(CUdeviceptr at);

/* In a call that allocates or frees: frees what of the current context needs no wait, 64 allocations at most. Where more than 1,024 are kept it may wait for work of the
 * context that goes on by itself. */
void fikit_late_frees_look(void);

/* Around the program's own wait for all work of this context. Before: the number of the newest free. After: those up to that number are freed. */
uint64_t fikit_late_frees_newest(void);
void fikit_late_frees_synchronised(CUcontext context, uint64_t newest);

/* A request for memory does not fit. True: try it again, since some was freed, or may be soon. `began_ns` begins as 0; after a second the answer is false. */
bool fikit_late_frees_wait(int64_t *began_ns);

/* Returns once no thread queries an event of a mark (streams/context_end.h). */
void fikit_late_frees_pass(void);

/* All work of the context is over, with its streams and events. Its memory has gone, too. */
void fikit_late_frees_work_ended(CUcontext context);
void fikit_late_frees_context_gone(CUcontext context);

/* In the child of a fork. */
void fikit_late_frees_forget_all(void);

#endif
