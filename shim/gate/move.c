/*
 * Moves are prefetches on a stream of our own, one piece after the other, each waited for: a later one would only stand in line, and the gate
 * is to be looked at in between. Goals are wishes about sums of bytes; which bytes, memory/movable.h says. What is moved while a stream of the
 * process captures could break the capture in a driver that counts a prefetch among the calls that may, so nothing is.
 */
#include "gate/move.h"
#include "base/clock.h"
#include "base/memory_abi.h"
#include "base/symbols.h"
#include "memory/movable.h"
#include "streams/context_end.h"

/* Contexts of a process are one or two; in others than these nothing is moved. */
enum { CONTEXTS = 4 };
enum { CU_STREAM_NON_BLOCKING = 1 };

/* All under the lock of the movable memory. */
static struct {
  CUcontext context;
  CUstream stream;
} own[CONTEXTS];
static uint32_t seen;       /* the newest goal that anybody has begun to work for; 0: none */
static uint64_t seen_bytes; /* which is that */

static uint64_t goal_bytes(const struct fikit_device *device) {
  return atomic_load_explicit(&device->page->moves.goal_bytes, memory_order_relaxed);
}

static void add(_Atomic uint64_t *counter, uint64_t more) {
  atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

/* A goal that nobody has reached came true by itself, or will: the device has faulted in what it needed, others have pushed out the rest. */
static void settle_before(struct fikit_device *device) {
  struct fikit_moves *moves = &device->page->moves;
  if (seen == 0 || atomic_load_explicit(&moves->reached, memory_order_relaxed) == seen)
    return;
  const int64_t came = fikit_movable_settle(device, seen_bytes);
  if (came > 0)
    add(&moves->missed_bytes, (uint64_t)came);
}

void fikit_move_begin(struct fikit_device *device, struct fikit_mover *mover) {
  struct fikit_moves *moves = &device->page->moves;
  *mover = (struct fikit_mover){.tried = atomic_load_explicit(&moves->goal, memory_order_acquire), .since_ns = fikit_now_ns()};
  if (mover->tried == seen || !fikit_movable_lock())
    return;
  settle_before(device);
  seen = mover->tried;
  seen_bytes = goal_bytes(device);
  fikit_movable_unlock();
}

static bool superseded(const struct fikit_device *device, const struct fikit_mover *mover) {
  return atomic_load_explicit(&device->page->moves.goal, memory_order_acquire) != mover->tried;
}

struct fikit_move fikit_move_next(struct fikit_device *device, const struct fikit_mover *mover) {
  struct fikit_piece piece = {0};
  if (!superseded(device, mover) && !fikit_capture_anywhere() && fikit_movable_lock()) {
    piece = fikit_movable_next(seen_bytes);
    fikit_movable_unlock();
  }
  if (!piece.bytes)
    return (struct fikit_move){FIKIT_COPY_NONE, 0};
  return (struct fikit_move){piece.in ? FIKIT_COPY_IN : FIKIT_COPY_OUT, piece.bytes};
}

/* NULL: there is none. */
static CUstream stream_of(CUcontext context) {
  int free_place = -1;
  for (int i = 0; i < CONTEXTS; i++) {
    if (own[i].context == context)
      return own[i].stream;
    if (!own[i].context && free_place < 0)
      free_place = i;
  }
  CUstream stream = NULL;
  if (free_place < 0 || REAL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
    return NULL;
  own[free_place].context = context;
  own[free_place].stream = stream;
  return stream;
}

/* In the form of CUDA 12.2 and newer, which CUDA 13 has alone, or in that of before. */
static CUresult prefetch(const struct fikit_piece *piece, CUdevice device, CUstream stream) {
  if (!HAS(cuMemPrefetchAsync_v2))
    return REAL(cuMemPrefetchAsync)(piece->at, piece->bytes, piece->in ? device : CU_DEVICE_CPU, stream);
  const CUmemLocation gpu = {CU_MEM_LOCATION_TYPE_DEVICE, device}, host = {CU_MEM_LOCATION_TYPE_HOST, 0};
  return REAL(cuMemPrefetchAsync_v2)(piece->at, piece->bytes, piece->in ? gpu : host, 0, stream);
}

/* Under the lock. */
static bool moved(const struct fikit_piece *piece, CUcontext context, CUdevice device) {
  const int mode = fikit_capture_relax(); /* another thread may begin a capture at any moment */
  const CUstream stream = stream_of(context);
  const bool done = stream && prefetch(piece, device, stream) == CUDA_SUCCESS && REAL(cuStreamSynchronize)(stream) == CUDA_SUCCESS;
  fikit_capture_restore(mode);
  return done;
}

static bool has_context(CUcontext *context, CUdevice *device) {
  return !fikit_context_ends() && REAL(cuCtxGetCurrent)(context) == CUDA_SUCCESS && *context &&
         REAL(cuCtxGetDevice)(device) == CUDA_SUCCESS;
}

bool fikit_move_make(struct fikit_device *device, struct fikit_mover *mover) {
  struct fikit_moves *moves = &device->page->moves;
  CUcontext context = NULL;
  CUdevice ordinal;
  if (superseded(device, mover) || fikit_capture_anywhere() || !fikit_movable_lock())
    return false;
  struct fikit_piece piece = {0};
  if (has_context(&context, &ordinal))
    piece = fikit_movable_next(seen_bytes); /* what was freed since it was looked for is in it no more */
  const bool done = piece.bytes && moved(&piece, context, ordinal);
  if (done) {
    fikit_movable_moved(device, &piece);
    add(piece.in ? &moves->in_bytes : &moves->out_bytes, piece.bytes);
    mover->moved += piece.bytes;
  } else if (piece.bytes) {
    atomic_fetch_add_explicit(&moves->failures, 1, memory_order_relaxed);
    seen_bytes = UINT64_MAX; /* the rest stays as it is, wherever that is */
    fikit_movable_settle(device, UINT64_MAX);
  }
  fikit_movable_unlock();
  return done;
}

void fikit_move_end(struct fikit_device *device, const struct fikit_mover *mover, bool late) {
  struct fikit_moves *moves = &device->page->moves;
  add(&moves->moving_ns, (uint64_t)(fikit_now_ns() - mover->since_ns));
  if (mover->moved)
    atomic_fetch_add_explicit(&moves->turns, 1, memory_order_relaxed);
  if (superseded(device, mover) || fikit_capture_anywhere())
    return;
  if (late && fikit_movable_lock()) {
    if (fikit_movable_next(seen_bytes).in)
      settle_before(device);
    fikit_movable_unlock();
  }
  atomic_store_explicit(&moves->reached, mover->tried, memory_order_release);
}

void fikit_move_pass(void) {
  if (fikit_movable_lock())
    fikit_movable_unlock();
}

void fikit_move_context_gone(CUcontext context) {
  if (!fikit_movable_lock())
    return;
  for (int i = 0; i < CONTEXTS; i++)
    if (own[i].context == context)
      own[i].context = NULL;
  fikit_movable_unlock();
}

void fikit_move_forget_all(void) {
  for (int i = 0; i < CONTEXTS; i++)
    own[i].context = NULL;
  seen = 0;
}
