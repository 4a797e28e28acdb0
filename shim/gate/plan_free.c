#include "gate/plan_free.h"
#include "gate/lane.h"
#include "memory/movable.h"
#include "streams/context_end.h"
#include "streams/mark.h"
#include "streams/stream.h"

/* Under the lock of the movable memory. */
static enum fikit_lane_free take_for_free(CUdeviceptr at, const struct fikit_stream *entry, struct fikit_awaited **awaited) {
  const uint64_t move = fikit_movable_take(at);
  return move && !fikit_context_ends() ? fikit_lane_free(move, entry, awaited) : FIKIT_FREE_NOW;
}

/* Where the driver refuses to wait the memory is freed all the same: a prefetch of it changes no contents. */
static void wait_for_move(const struct fikit_stream *entry, CUstream stream, struct fikit_awaited *awaited) {
  const bool waited = fikit_lane_wait(stream, awaited);
  if (!fikit_movable_lock())
    return;
  fikit_lane_give_back(awaited, waited ? entry : NULL);
  fikit_movable_unlock();
}

/* The lane, once it waits for `stream`; `stream` itself where the lane cannot wait for it. NULL: the lane, which has nothing more to wait for. */
static CUstream lane_behind(CUstream stream) {
  struct fikit_mark *mark = stream ? fikit_mark(stream) : NULL;
  CUstream found = stream;
  if (stream && !mark)
    return stream;
  if (fikit_movable_lock()) {
    found = !mark || fikit_lane_follow_mark(mark) ? fikit_lane_stream() : stream;
    fikit_movable_unlock();
  }
  if (mark)
    fikit_mark_dropped(mark);
  return found;
}

CUstream fikit_plan_free(CUdeviceptr at, CUstream stream) {
  struct fikit_awaited *awaited = NULL;
  if (!fikit_lane_was_open())
    return stream;
  const struct fikit_stream *entry = stream ? fikit_stream_of(stream) : NULL;
  if (!fikit_movable_lock())
    return stream;
  const enum fikit_lane_free how = take_for_free(at, entry, &awaited);
  fikit_movable_unlock();
  if (how == FIKIT_FREE_WAITS)
    wait_for_move(entry, stream, awaited);
  return how == FIKIT_FREE_IN_LANE ? lane_behind(stream) : stream;
}
