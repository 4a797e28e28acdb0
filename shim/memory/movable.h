/* Managed memory that stands in the place of the program's plain memory, and which of its chunks are on the GPU as far as this process
 * knows: which bytes to move next. Nothing here calls the driver. */
#ifndef FIKIT_SHIM_MOVABLE_H
#define FIKIT_SHIM_MOVABLE_H

#include "base/device.h"

/* Of one allocation, FIKIT_PLAN_CHUNKS at most: about 3 ms of the link, after which the gate is looked at again. */
struct fikit_piece {
  CUdeviceptr at;
  uint64_t bytes; /* 0: nothing is to be moved */
  bool in;        /* to the GPU */
  bool in_order;  /* freed in stream order: its free waits for the move */
};

/* An allocation of a context came, which counts as being on the GPU: who allocates uses it next. False: memory of ours is short; it is never
 * moved, and comes and goes by page faults. */
bool fikit_movable_came(struct fikit_device *device, CUcontext context, CUdeviceptr at, uint64_t bytes);

/* The same of memory in stream order, of no context: it is moved towards a goal once `passed` says that the stream has come to its allocation. Whoever comes
 * first of `passed` (true) and `dropped` has seen the mark last. `freed_at_once`, before cuMemFree: the stream that frees it instead, since a move of it may be
 * under way; NULL: cuMemFree. */
struct fikit_mark;
struct fikit_order {
  bool (*passed)(struct fikit_mark *mark);
  void (*dropped)(struct fikit_mark *mark);
  CUstream (*freed_at_once)(CUdeviceptr at);
};
bool fikit_movable_came_in_order(struct fikit_device *device, CUdeviceptr at, uint64_t bytes, struct fikit_mark *mark,
                                 const struct fikit_order *order);

/* Before the driver frees it, or when its context was destroyed. Waits for the piece that is being moved, the first one for a lease at most. */
void fikit_movable_gone(CUdeviceptr at);
void fikit_movable_context_gone(CUcontext context);

/* Before cuMemFree of it: as `freed_at_once` says; NULL of all other memory. */
CUstream fikit_movable_freed_at_once(CUdeviceptr at);

/* Around the choice of a piece and its move: no allocation goes meanwhile, unless the driver blocks in the move for more than a second. False: it does so in another thread, or
 * this one is in a signal handler of such a thread. For good: where a context ends, which ends no sooner than calls of the driver in it. */
bool fikit_movable_lock(void);
bool fikit_movable_lock_for_good(void);
void fikit_movable_unlock(void);

/* Without the lock, by who takes it again at once: other threads that wait for it come first. */
void fikit_movable_let_others(void);

/* Under the lock: the next piece towards so many bytes on the GPU. In whole chunks: in the end there are no more than that, and less than a
 * chunk is missing. */
struct fikit_piece fikit_movable_next(uint64_t goal_bytes);

/* Under the lock: so many bytes are on the GPU beyond that, or missing. */
uint64_t fikit_movable_left(uint64_t goal_bytes);

/* Under the lock: these chunks of the allocation that begins at `at`, of which `changes` bytes are elsewhere now. No bytes: it has not so
 * many, or there is none. */
struct fikit_piece fikit_movable_part(CUdeviceptr at, uint64_t chunk, uint64_t chunks, bool in, uint64_t *changes);

/* Under the lock: of these chunks of an allocation of this context that begins at `at`, and that is in no stream's order, the first that lie together and are new: since it
 * came they were neither moved nor taken here. They are new no more. No bytes: there are none. */
struct fikit_piece fikit_movable_take_new(CUcontext context, CUdeviceptr at, uint64_t chunk, uint64_t chunks);

/* Chunks of memory that begins at `at` were taken so, or nobody can say. One load where none ever were. */
bool fikit_movable_was_taken_new(CUdeviceptr at);

/* Under the lock: behind what a move of the allocation that begins at `at` has to come. NULL: behind nothing. Passed: its stream has come there by now; then
 * the mark is gone. */
struct fikit_mark *fikit_movable_mark(CUdeviceptr at);
bool fikit_movable_mark_passed(CUdeviceptr at);

/* Under the lock: this move (1 or more) of the plan's was the last one of memory at `at`; before the driver frees what begins there: which was that, 0: none. It is
 * moved no more. */
void fikit_movable_carried(CUdeviceptr at, uint64_t move);
uint64_t fikit_movable_take(CUdeviceptr at);

/* Under the lock: all of a piece has been moved out before, since it was allocated. */
bool fikit_movable_was_out(const struct fikit_piece *piece);

/* Under the lock: a piece is, or will be as soon as the driver comes to it, where it shall be. Returns how many of its bytes were elsewhere. */
uint64_t fikit_movable_moved(struct fikit_device *device, const struct fikit_piece *piece);

/* Under the lock: from here on so many bytes count as being on the GPU, however they came or went. Returns how many more or (negative) fewer. */
int64_t fikit_movable_settle(struct fikit_device *device, uint64_t goal_bytes);

/* In the child of a fork. */
void fikit_movable_forget_all(void);

#endif
