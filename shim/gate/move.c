/*
 * Moves are prefetches on a stream of our own, some pieces at a time, which are waited for: later ones would only stand in line, and the gate
 * is to be looked at in between. Goals are wishes about sums of bytes; which bytes, memory/movable.h says. What is moved while a stream of the
 * process captures could break the capture in a driver that counts a prefetch among the calls that may, so nothing is.
 */
#include "gate/move.h"
#include "gate/prefetch.h"
#include "base/clock.h"
#include "base/symbols.h"
#include "memory/movable.h"

/* Contexts of a process are one or two; in others than these nothing is moved. */
enum { CONTEXTS = 4 };
/* So much is moved between two looks at the gate: about 3 ms of the link. */
static const uint64_t MOST_BYTES = (uint64_t)FIKIT_PLAN_CHUNKS * FIKIT_CHUNK_BYTES;

/* All under the lock of the movable memory. */
static struct {
  CUcontext context;
  CUstream stream;
} own[CONTEXTS];
static uint32_t seen;       /* the newest goal that anybody has begun to work for; 0: none */
static uint64_t seen_bytes; /* which is that */
static bool came;           /* memory was brought since some was sent away last */

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
  uint64_t left = 0;
  if (!superseded(device, mover) && !fikit_capture_anywhere() && fikit_movable_lock()) {
    piece = fikit_movable_next(seen_bytes);
    left = fikit_movable_left(seen_bytes);
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

/* Under the lock. A turn is one however many goals bring its memory, as where part of it comes ahead into free room. */
static void count(struct fikit_moves *moves, const struct fikit_piece *piece) {
  add(piece->in ? &moves->in_bytes : &moves->out_bytes, piece->bytes);
  if (piece->in && !came)
    atomic_fetch_add_explicit(&moves->turns, 1, memory_order_relaxed);
  came = piece->in;
}

/* Under the lock: pieces of one way, handed to the driver one behind the other and waited for together. False: it refused. */
static bool moved(struct fikit_device *device, uint64_t *bytes, CUdevice ordinal, CUstream stream) {
  const bool in = fikit_movable_next(seen_bytes).in;
  for (;;) { /* what was freed since it was looked for is in it no more */
    const struct fikit_piece piece = fikit_movable_next(seen_bytes);
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
  if (fikit_prefetch_context(&context, &ordinal) && fikit_movable_next(seen_bytes).bytes) {
    const int mode = fikit_capture_relax(); /* another thread may begin a capture at any moment */
    const CUstream stream = stream_of(context);
    refused = !stream || !moved(device, &bytes, ordinal, stream);
    fikit_capture_restore(mode);
  }
  if (refused) {
    atomic_fetch_add_explicit(&moves->failures, 1, memory_order_relaxed);
    seen_bytes = UINT64_MAX; /* the rest stays as it is, wherever that is */
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
    if (fikit_movable_next(seen_bytes).in)
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
  seen = 0;
  came = false;
}
