/* Managed memory that stands in the place of the program's plain memory, and what of it is on the GPU as far as this process knows: which
 * bytes to move next. Nothing here calls the driver. */
#ifndef FIKIT_SHIM_MOVABLE_H
#define FIKIT_SHIM_MOVABLE_H

#include "base/device.h"

enum { FIKIT_PIECE_BYTES = 64 << 20 }; /* of a move: about 3 ms of the link, after which the gate is looked at again */

struct fikit_piece {
  CUdeviceptr at;
  uint64_t bytes; /* 0: nothing is to be moved */
  bool in;        /* to the GPU */
};

/* An allocation of a context came, which counts as being on the GPU: who allocates uses it next. False: memory of ours is short; it is never
 * moved, and comes and goes by page faults. */
bool fikit_movable_came(struct fikit_device *device, CUcontext context, CUdeviceptr at, uint64_t bytes);

/* Before the driver frees it, or when its context was destroyed. Waits for the piece that is being moved. */
void fikit_movable_gone(CUdeviceptr at);
void fikit_movable_context_gone(CUcontext context);

/* Around the choice of a piece and its move: no allocation goes meanwhile. False: this thread is in a signal handler of such a thread. */
bool fikit_movable_lock(void);
void fikit_movable_unlock(void);

/* Under the lock: the next piece towards so many bytes on the GPU; and, once the driver has moved it, that it is there. */
struct fikit_piece fikit_movable_next(uint64_t goal_bytes);
void fikit_movable_moved(struct fikit_device *device, const struct fikit_piece *piece);

/* Under the lock: from here on so many bytes count as being on the GPU, however they came or went. Returns how many more or (negative) fewer. */
int64_t fikit_movable_settle(struct fikit_device *device, uint64_t goal_bytes);

/* In the child of a fork. */
void fikit_movable_forget_all(void);

#endif
