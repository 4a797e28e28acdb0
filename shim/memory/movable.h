/* Managed memory in the place of the program's plain memory: which of its chunks are on the GPU, as far as this process knows, and which bytes to move next. Nothing here
 * calls the driver. */
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

/* Adds an allocation of a context. It counts as being on the GPU, because the program uses it next. False: the shim has no memory for that; the allocation is never moved,
 * and comes and goes by page faults. */
bool fikit_movable_came(struct fikit_device *device, CUcontext context, CUdeviceptr at, uint64_t bytes);

/* The same for memory in stream order, which belongs to no context: it is moved towards a goal once its stream has come to the allocation. Passed: has it? Once that is
 * true, or `dropped` was called, the mark is not used any more. Freed at once: before cuMemFree of it, the stream in whose order to free it instead, since a move of it
 * may be under way; NULL: cuMemFree. */
struct fikit_mark;
struct fikit_order {
  bool (*passed)(struct fikit_mark *mark);
  void (*dropped)(struct fikit_mark *mark);
  CUstream (*freed_at_once)(CUdeviceptr at);
};
bool fikit_movable_came_in_order(struct fikit_device *device, CUdeviceptr at, uint64_t bytes, struct fikit_mark *mark,
                                 const struct fikit_order *order);

/* Before the driver frees it, or when its context was destroyed. Waits for the piece that is being moved: a lease at most. */
void fikit_movable_gone(CUdeviceptr at);
void fikit_movable_context_gone(CUcontext context);

/* Before cuMemFree of it: as `freed_at_once` says; NULL of all other memory. */
CUstream fikit_movable_freed_at_once(CUdeviceptr at);

/* Around the choice of a piece and its move: no allocation is freed meanwhile, unless the driver blocks in the move for more than a second. False: the driver blocks in another
 * thread, or this thread is in a signal handler that interrupted the lock's holder. For good: waits without an end; where a context ends, which no call of the driver in it
 * outlasts. */
bool fikit_movable_lock(void);
bool fikit_movable_lock_for_good(void);
void fikit_movable_unlock(void);

/* Without the lock, by a thread that takes it again at once: lets threads that wait for it go first. */
void fikit_movable_let_others(void);

/* Under the lock: the next piece to move, so that so many bytes are on the GPU. In whole chunks: in the end there are no more than that, and less than a
 * chunk is missing. */
struct fikit_piece fikit_movable_next(uint64_t goal_bytes);

/* Under the lock: by how many bytes what is on the GPU differs from the goal. */
uint64_t fikit_movable_left(uint64_t goal_bytes);

/* Under the lock: these chunks of the allocation that begins at `at`, of which `changes` bytes are elsewhere now. No bytes: it has not so
 * many, or there is none. */
struct fikit_piece fikit_movable_part(CUdeviceptr at, uint64_t chunk, uint64_t chunks, bool in, uint64_t *changes);

/* Under the lock: of these chunks of an allocation of this context that begins at `at`, and that is in no stream's order, the first that lie together and are new: since it
 * came they were neither moved nor taken here. They are new no more. No bytes: there are none. */
struct fikit_piece fikit_movable_take_new(CUcontext context, CUdeviceptr at, uint64_t chunk, uint64_t chunks);

/* Chunks of memory that begins at `at` were taken so, or nobody can say. One load where none ever were. */
bool fikit_movable_was_taken_new(CUdeviceptr at);

/* Under the lock: the mark behind which a move of the allocation that begins at `at` has to come; NULL: none. Passed: has its stream come there? Then the mark is
 * gone. */
struct fikit_mark *fikit_movable_mark(CUdeviceptr at);
bool fikit_movable_mark_passed(CUdeviceptr at);

/* Under the lock. Carried: this move of the plan (1 or more) is the newest of memory at `at`. Take: before the driver frees what begins there, forgets it, so that it
 * is not moved any more; the number of its newest move, 0: none. */
void fikit_movable_carried(CUdeviceptr at, uint64_t move);
uint64_t fikit_movable_take(CUdeviceptr at);

/* Under the lock: all of a piece has been moved out before, since it was allocated. */
bool fikit_movable_was_out(const struct fikit_piece *piece);

/* Under the lock: the driver was given the move of this piece, which counts as made. Returns how many of its bytes were elsewhere. */
uint64_t fikit_movable_moved(struct fikit_device *device, const struct fikit_piece *piece);

/* Under the lock: from now on so many bytes count as being on the GPU, without a move. Returns how many more that are, negative: fewer. */
int64_t fikit_movable_settle(struct fikit_device *device, uint64_t goal_bytes);

/* In the child of a fork. */
void fikit_movable_forget_all(void);

#endif
