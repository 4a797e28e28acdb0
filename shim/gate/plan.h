/* The shim's copy of fikitd's plan (struct fikit_plan), and which of its moves comes next. Nothing here calls the driver. */
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

/* Plans are carried out for launches numbered up to this: sums with the length of a pass stay below 2^64. */
#define FIKIT_PLAN_MOST_SEQ (UINT64_C(1) << 62)

/* Copies the plan and checks it. Its next move is the first one behind launch number `seq` or a later launch, its next first uses are those of such a launch. SENSELESS: it is
 * out of its bounds. CHANGES: fikitd is writing it. */
enum fikit_plan_read fikit_plan_read(struct fikit_taken_plan *plan, const struct fikit_plan *shared, uint64_t seq);

/* The launch behind which the next move may begin; FIKIT_LOOK_NEVER: the plan has none. */
uint64_t fikit_plan_next(const struct fikit_taken_plan *plan);

/* The launch that needs the next move, which is one to the GPU. */
uint64_t fikit_plan_needed(const struct fikit_taken_plan *plan);

void fikit_plan_advance(struct fikit_taken_plan *plan);

/* Launch number `seq` is the newest. Passes that have gone by without a look are left out, except for the last one, whose moves are the same. Returns how many moves that
 * were; two passes at most are left to look at. */
uint64_t fikit_plan_catch_up(struct fikit_taken_plan *plan, uint64_t seq);

/* How many of the next moves are too late: all up to the last move to the GPU whose launch has been made. Those before it are left out with it, because the moves behind
 * expect the memory as all of them leave it. */
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
