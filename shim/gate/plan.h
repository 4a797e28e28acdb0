/* A plan of fikitd's (struct fikit_plan), as the shim has copied it, and which of its moves comes next. Nothing here calls the driver. */
#ifndef FIKIT_SHIM_PLAN_H
#define FIKIT_SHIM_PLAN_H

#include "base/device.h"

struct fikit_taken_plan {
  uint32_t number; /* 0: there is none */
  uint32_t launches, count, first_uses;
  uint64_t pass; /* launch_seq of the first launch of the pass to which the next move belongs */
  uint32_t next; /* which of the moves that is */
  uint64_t use;  /* launch_seq of the next launch that has first uses; FIKIT_LOOK_NEVER: none has */
  _Alignas(uint64_t) struct fikit_plan_move moves[FIKIT_PLAN_MOVES]; /* and behind them the first uses */
};

enum fikit_plan_read { FIKIT_PLAN_TAKEN, FIKIT_PLAN_SENSELESS, FIKIT_PLAN_CHANGES };

/* Launches are numbered below this, as far as plans are concerned: sums with the length of a pass stay below 2^64. Whoever writes another number into
 * the page has no plan. */
#define FIKIT_PLAN_MOST_SEQ (UINT64_C(1) << 62)

/* Copy the plan and check it. Its next move is then the first one behind launch number `seq` or a later one, and its next first uses are of such a launch.
 * CHANGES: fikitd is writing it. */
enum fikit_plan_read fikit_plan_read(struct fikit_taken_plan *plan, const struct fikit_plan *shared, uint64_t seq);

/* The launch behind which the next move may begin; FIKIT_LOOK_NEVER: the plan has none. */
uint64_t fikit_plan_next(const struct fikit_taken_plan *plan);

/* The launch that needs the next move, which is one to the GPU. */
uint64_t fikit_plan_needed(const struct fikit_taken_plan *plan);

void fikit_plan_advance(struct fikit_taken_plan *plan);

/* Launch number `seq` was the newest. Passes that nobody came by in, but for the last of them, are passed over: their moves would be the same
 * again. How many these were; what is left to look at is two passes at most. */
uint64_t fikit_plan_catch_up(struct fikit_taken_plan *plan, uint64_t seq);

/* Of what is left: moves that nobody came by in time for: up to the last one to the GPU whose launch is gone. What they
 * would have left is not what the moves behind them expect, so all of these are passed over: how many. */
uint64_t fikit_plan_late(const struct fikit_taken_plan *plan, uint64_t seq);

/* What launch number `seq` is the first to touch since the program took it: entry i of these, from 0 on. NULL: there are not so many. */
const struct fikit_plan_move *fikit_plan_first_use(const struct fikit_taken_plan *plan, uint64_t seq, uint32_t i);

/* The next launch that has first uses; FIKIT_LOOK_NEVER: the plan has none. */
uint64_t fikit_plan_next_use(const struct fikit_taken_plan *plan);

/* Launch number `seq` begins: the next first uses are of a later one. True: it has some itself. */
bool fikit_plan_comes_to(struct fikit_taken_plan *plan, uint64_t seq);

/* First uses are brought no more. */
void fikit_plan_forget_uses(struct fikit_taken_plan *plan);

#endif
