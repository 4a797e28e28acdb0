/*
 * Where first uses are brought, and why that is safe: docs/design/residency.md, "First uses". The prefetches are made without the lock of the movable memory, because
 * the driver may block a thread whose stream is full. Another thread may free the memory meanwhile: then no launch of a correct program uses it any more, and the driver
 * refuses the prefetch, or brings another allocation that has that address. A prefetch changes no contents.
 */
#include "gate/first_use.h"
#include "gate/carry.h"
#include "gate/gate.h"
#include "gate/lane.h"
#include "gate/plan.h"
#include "gate/prefetch.h"
#include "memory/extents.h"
#include "memory/movable.h"
#include "streams/capture.h"

/* First uses of launch number `seq`, which are brought in `stream` of the current context. */
struct bringing {
  struct fikit_device *device;
  const struct fikit_stream *entry;
  CUstream stream;
  CUcontext context;
  CUdevice ordinal;
  uint64_t seq;
  uint32_t next;  /* which of its first uses is looked at next */
  CUdeviceptr at; /* of the memory that begins there; 0: of all memory */
};

/* What the driver refuses is not tried again by this plan. */
static bool bring(const struct bringing *bringing, const struct fikit_piece *piece) {
  const int mode = fikit_capture_relax();
  const bool done = fikit_prefetch(piece, bringing->ordinal, bringing->stream) == CUDA_SUCCESS;
  fikit_capture_restore(mode);
  struct fikit_plan *shared = bringing->device->plan;
  atomic_fetch_add_explicit(done ? &shared->carried_out : &shared->skipped, 1, memory_order_relaxed);
  if (!done && fikit_movable_lock()) {
    struct fikit_taken_plan *plan = fikit_plan_carried(bringing->device);
    if (plan)
      fikit_plan_forget_uses(plan);
    fikit_movable_unlock();
  }
  return done;
}

/* `next`, under the lock: the piece that comes next. No bytes: there is none. */
static void bring_all(struct bringing *bringing, struct fikit_piece (*next)(struct bringing *bringing)) {
  struct fikit_piece piece;
  if (!fikit_prefetch_context(&bringing->context, &bringing->ordinal) ||
      atomic_load_explicit(&bringing->entry->context, memory_order_relaxed) != bringing->context)
    return;
  do {
    if (!fikit_movable_lock())
      return;
    piece = next(bringing);
    fikit_movable_unlock();
  } while (piece.bytes && bring(bringing, &piece));
}

/* ---- memory in stream order, when it is taken */

/* Under the lock. NULL where the next launch would have to ask at the gate, and where the stream does not come behind the launches of the plan: the memory would be on the GPU
 * too early. */
static const struct fikit_taken_plan *plan_to_take_by(const struct bringing *bringing) {
  const struct fikit_page *page = bringing->device->page;
  const bool its_turn = fikit_gate_open(page) || !fikit_run_over(page, bringing->seq - 1);
  return its_turn && fikit_lane_follows(bringing->entry) ? fikit_plan_carried(bringing->device) : NULL;
}

static struct fikit_piece next_of_taken(struct bringing *bringing) {
  bringing->seq = FIKIT_LOAD(bringing->device->page->launch_seq, relaxed) + 1;
  const struct fikit_taken_plan *plan = plan_to_take_by(bringing);
  const struct fikit_plan_move *use;
  uint64_t changes;
  while (plan && (use = fikit_plan_first_use(plan, bringing->seq, bringing->next++)))
    if (fikit_extent_base(bringing->device, use->allocation) == bringing->at)
      return fikit_movable_part(bringing->at, use->chunk, use->chunks, true, &changes);
  return (struct fikit_piece){0};
}

void fikit_first_use_took(struct fikit_device *device, CUdeviceptr at, CUstream stream) {
  if (!fikit_plan_any())
    return;
  struct bringing bringing = {.device = device, .entry = fikit_stream_of(stream), .stream = stream, .at = at};
  bring_all(&bringing, next_of_taken);
}

/* ---- memory in no stream's order, before its first use */

static struct fikit_piece next_new(struct bringing *bringing) {
  const struct fikit_taken_plan *plan = fikit_plan_carried(bringing->device);
  const struct fikit_plan_move *use;
  for (; plan && (use = fikit_plan_first_use(plan, bringing->seq, bringing->next)); bringing->next++) {
    const uint64_t at = fikit_extent_base(bringing->device, use->allocation);
    const struct fikit_piece piece = at ? fikit_movable_take_new(bringing->context, at, use->chunk, use->chunks) : (struct fikit_piece){0};
    if (piece.bytes)
      return piece;
  }
  return (struct fikit_piece){0};
}

void fikit_first_use_before(struct fikit_device *device, const struct fikit_stream *entry, CUstream stream, uint64_t seq) {
  struct bringing bringing = {.device = device, .entry = entry, .stream = stream, .seq = seq};
  bring_all(&bringing, next_new);
}
