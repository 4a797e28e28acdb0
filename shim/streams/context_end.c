#include "streams/context_end.h"

_Atomic int fikit_contexts_ending;

void fikit_context_forget_all(void) {
  atomic_store(&fikit_contexts_ending, 0);
}
