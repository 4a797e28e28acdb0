/* The thread that stands at the closed gate moves its process's memory to where fikitd wants it (struct fikit_moves). Whatever goes wrong ends
 * the moving: memory that is elsewhere comes by a page fault. */
#ifndef FIKIT_SHIM_MOVE_H
#define FIKIT_SHIM_MOVE_H

#include "base/device.h"
#include "streams/capture.h"
#include "fikit_rules.h"

/* A thread at the gate, and the goal that it works for. Begins as {0}. */
struct fikit_mover {
  uint32_t tried;         /* the goal that it has worked for last; 0: none */
  int64_t since_ns;
};

/* Pieces that are about to be moved, together. */
struct fikit_move {
  enum fikit_copy copy; /* which way; NONE: there is nothing to be moved */
  uint64_t bytes;
};

/* A goal stands that this thread has not worked for yet. One load in a job without memory that may leave the GPU. */
static inline bool fikit_move_due(const struct fikit_page *page, const struct fikit_mover *mover) {
  if (page->version < FIKIT_SINCE_MOVES)
    return false;
  const uint32_t goal = FIKIT_LOAD(page->moves.goal, acquire);
  return goal != 0 && goal != mover->tried && goal != FIKIT_LOAD(page->moves.reached, relaxed) && !fikit_capture_anywhere();
}

/* Begin to work for the goal that stands; then, again and again, which pieces come next, and their move. Between two moves the caller looks at the gate and at other
 * copies. Make: false where the driver refuses. End: `late`: the program's work goes on before the goal is reached. */
void fikit_move_begin(struct fikit_device *device, struct fikit_mover *mover);
struct fikit_move fikit_move_next(struct fikit_device *device, const struct fikit_mover *mover);
bool fikit_move_make(struct fikit_device *device, struct fikit_mover *mover);
void fikit_move_end(struct fikit_device *device, const struct fikit_mover *mover, bool late);

/* No thread is moving when this returns, and none begins while a context ends (streams/context_end.h). */
void fikit_move_pass(void);

/* The context was destroyed, and the stream of ours in it. */
void fikit_move_context_gone(CUcontext context);

/* In the child of a fork. */
void fikit_move_forget_all(void);

#endif
