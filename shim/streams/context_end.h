/* Contexts that end. Their events end with them. To query an event while its context is being destroyed, or later, is undefined behaviour in any
 * thread (CUDA manual, cuCtxDestroy). So meanwhile the shim queries none. */
#ifndef FIKIT_SHIM_CONTEXT_END_H
#define FIKIT_SHIM_CONTEXT_END_H

#include <stdatomic.h>
#include <stdbool.h>

extern _Atomic int fikit_contexts_ending; /* calls under way that may destroy a context */

/* To be called under the lock of the events that are to be queried (fikit_markers_pass, fikit_measure_pass). */
static inline bool fikit_context_ends(void) {
  return atomic_load_explicit(&fikit_contexts_ending, memory_order_seq_cst) > 0;
}

/* In the child of a fork: the threads that were in such a call are not there. */
void fikit_context_forget_all(void);

#endif
