/*
 * Moves are prefetches on a stream of the shim's own. Some pieces at a time are handed over and waited for, and the gate is looked at in between:
 * more of them would only queue behind each other. A goal is a number of bytes; memory/movable.h chooses which. While a stream of the process
 * captures nothing is moved: a driver may count a prefetch among the calls that invalidate a capture.
 */
#include "gate/move.h"
#include "gate/prefetch.h"
#include "base/clock.h"
#include "base/symbols.h"
#include "memory/movable.h"

/* A process has one or two contexts; in those beyond this number nothing is moved. */
enum { CONTEXTS = 4 };
/* Moved between two looks at the gate: about 3 ms of the link. */
static const uint64_t MOST_BYTES = (uint64_t)FIKIT_PLAN_CHUNKS * FIKIT_CHUNK_BYTES;

/* All under the lock of the movable memory. */
static struct {
  CUcontext context;
  CUstream stream;
} own[CONTEXTS];
static uint32_t begun;       /* number of the newest goal that a thread has begun to work for; 0: none */
static uint64_t begun_bytes; /* of that goal */
static bool came;            /* the newest move was one to the GPU */

static uint64_t goal_bytes(const struct fikit_device *device) {
  return atomic_load_explicit(&device->page->moves.goal_bytes, memory_order_relaxed);
}

static void add(_Atomic uint64_t *counter, uint64_t more) {
  atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

/* The last goal was not reached by moves. It counts as reached: page faults have brought, or will bring, what the kernels need, and memory of others has displaced the
 * rest. */
static void settle_before(struct fikit_device *device) {
  struct fikit_moves *moves = &device->page->moves;
  if (begun == 0 || atomic_load_explicit(&moves->reached, memory_order_relaxed) == begun)
    return;
  const int64_t missed = fikit_movable_settle(device, begun_bytes);
  if (missed > 0)
    add(&moves->missed_bytes, (uint64_t)missed);
}

void fikit_move_begin(struct fikit_device *device, struct fikit_mover *mover) {
  struct fikit_moves *moves = &device->page->moves;
  *mover = (struct fikit_mover){.tried = atomic_load_explicit(&moves->goal, memory_order_acquire), .since_ns = fikit_now_ns()};
  if (mover->tried == begun || !fikit_movable_lock())
    return;
  settle_before(device);
  begun = mover->tried;
  begun_bytes = goal_bytes(device);
  fikit_movable_unlock();
}

static bool superseded(const struct fikit_device *device, const struct fikit_mover *mover) {
  return atomic_load_explicit(&device->page->moves.goal, memory_order_acquire) != mover->tried;
}

struct fikit_move fikit_move_next(struct fikit_device *device, const struct fikit_mover *mover) {
  struct fikit_piece piece = {0};
  uint64_t left = 0;
  if (!superseded(device, mover) && !fikit_capture_anywhere() && fikit_movable_lock()) {
    piece = fikit_movable_next(begun_bytes);
    left = fikit_movable_left(begun_bytes);
    fikit_movable_unlock();
  }
  if (!piece.bytes)
    return (struct fikit_move){FIKIT_COPY_NONE, 0};
  const uint64_t bytes = left < MOST_BYTES ? left : MOST_BYTES;
  return (struct fikit_move){piece.in ? FIKIT_COPY_IN : FIKIT_COPY_OUT, bytes > piece.bytes ? bytes : piece.bytes};
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
  const CUstream stream = free_place < 0 ? NULL : fikit_prefetch_stream();
  if (!stream)
    return NULL;
  own[free_place].context = context;
  own[free_place].stream = stream;
  return stream;
}

/* Under the lock. A turn counts once, however many goals bring its memory: a part of it may come ahead. */
static void count(struct fikit_moves *moves, const struct fikit_piece *piece) {
  add(piece->in ? &moves->in_bytes : &moves->out_bytes, piece->bytes);
  if (piece->in && !came)
    atomic_fetch_add_explicit(&moves->turns, 1, memory_order_relaxed);
  came = piece->in;
}

/* Under the lock: pieces of one way, handed to the driver one behind the other and waited for together. False: it refused. */
static bool moved(struct fikit_device *device, uint64_t *bytes, CUdevice ordinal, CUstream stream) {
  const bool in = fikit_movable_next(begun_bytes).in;
  for (;;) {
    const struct fikit_piece piece = fikit_movable_next(begun_bytes);
    if (!piece.bytes || piece.in != in || (*bytes && *bytes + piece.bytes > MOST_BYTES))
      return !*bytes || REAL(cuStreamSynchronize)(stream) == CUDA_SUCCESS;
    if (fikit_prefetch(&piece, ordinal, stream) != CUDA_SUCCESS)
      break;
    fikit_movable_moved(device, &piece);
    count(&device->page->moves, &piece);
    *bytes += piece.bytes;
  }
  REAL(cuStreamSynchronize)(stream);
  return false;
}

bool fikit_move_make(struct fikit_device *device, struct fikit_mover *mover) {
  struct fikit_moves *moves = &device->page->moves;
  CUcontext context = NULL;
  CUdevice ordinal;
  if (superseded(device, mover) || fikit_capture_anywhere() || !fikit_movable_lock())
    return false;
  uint64_t bytes = 0;
  bool refused = false;
  if (fikit_prefetch_context(&context, &ordinal) && fikit_movable_next(begun_bytes).bytes) {
    const int mode = fikit_capture_relax(); /* another thread may begin a capture at any moment */
    const CUstream stream = stream_of(context);
    refused = !stream || !moved(device, &bytes, ordinal, stream);
    fikit_capture_restore(mode);
  }
  if (refused) {
    atomic_fetch_add_explicit(&moves->failures, 1, memory_order_relaxed);
    begun_bytes = UINT64_MAX; /* no more pieces: the rest stays where it is */
    fikit_movable_settle(device, UINT64_MAX);
  }
  fikit_movable_unlock();
  fikit_movable_let_others();
  return bytes && !refused;
}

void fikit_move_end(struct fikit_device *device, const struct fikit_mover *mover, bool late) {
  struct fikit_moves *moves = &device->page->moves;
  add(&moves->moving_ns, (uint64_t)(fikit_now_ns() - mover->since_ns));
  if (superseded(device, mover) || fikit_capture_anywhere())
    return;
  if (late && fikit_movable_lock()) {
    if (fikit_movable_next(begun_bytes).in)
      settle_before(device);
    fikit_movable_unlock();
  }
  atomic_store_explicit(&moves->reached, mover->tried, memory_order_release);
}

void fikit_move_pass(void) {
  if (fikit_movable_lock_for_good())
    fikit_movable_unlock();
}

void fikit_move_context_gone(CUcontext context) {
  if (!fikit_movable_lock_for_good())
    return;
  for (int i = 0; i < CONTEXTS; i++)
    if (own[i].context == context)
      own[i].context = NULL;
  fikit_movable_unlock();
}

void fikit_move_forget_all(void) {
  for (int i = 0; i < CONTEXTS; i++)
    own[i].context = NULL;
  begun = 0;
  came = false;
}
