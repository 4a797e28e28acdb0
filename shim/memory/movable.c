#include "memory/movable.h"
#include "base/lock.h"

#include <stdlib.h>

/* What the driver moves at a time. */
enum { CHUNK_BYTES = 2 << 20, FIRST_ROOM = 64 };

/* The beginning of an allocation is on the GPU, the rest is not. */
struct range {
  CUdeviceptr at;
  uint64_t bytes, resident;
  CUcontext context;
  struct fikit_device *device;
};

FIKIT_LOCK(moving);
/* In the order in which they came, all under `moving`. */
static struct range *ranges;
static size_t count, room;
static uint64_t all_bytes, all_resident;

static void say(const struct fikit_device *device) {
  struct fikit_page *page = device->page;
  if (page->version < FIKIT_SINCE_MOVES)
    return;
  atomic_store_explicit(&page->moves.movable_bytes, all_bytes, memory_order_relaxed);
  atomic_store_explicit(&page->moves.resident_bytes, all_resident, memory_order_relaxed);
}

static void set_resident(struct range *range, uint64_t resident) {
  all_resident += resident - range->resident;
  range->resident = resident;
}

static bool make_room(void) {
  if (count < room)
    return true;
  const size_t more = room ? 2 * room : FIRST_ROOM;
  struct range *larger = realloc(ranges, more * sizeof *ranges);
  if (!larger)
    return false;
  ranges = larger;
  room = more;
  return true;
}

bool fikit_movable_came(struct fikit_device *device, CUcontext context, CUdeviceptr at, uint64_t bytes) {
  if (!fikit_lock_around(&moving))
    return false;
  const bool kept = make_room();
  if (kept) {
    ranges[count++] = (struct range){.at = at, .bytes = bytes, .resident = bytes, .context = context, .device = device};
    all_bytes += bytes;
    all_resident += bytes;
    say(device);
  }
  fikit_unlock_around(&moving);
  return kept;
}

static void drop(size_t i) {
  struct fikit_device *device = ranges[i].device;
  all_bytes -= ranges[i].bytes;
  all_resident -= ranges[i].resident;
  count--;
  for (; i < count; i++) /* they keep their order: what came first comes first */
    ranges[i] = ranges[i + 1];
  say(device);
}

void fikit_movable_gone(CUdeviceptr at) {
  if (!fikit_lock_around(&moving))
    return;
  for (size_t i = count; i-- > 0;)
    if (ranges[i].at == at) {
      drop(i);
      break;
    }
  fikit_unlock_around(&moving);
}

void fikit_movable_context_gone(CUcontext context) {
  if (!fikit_lock_around(&moving))
    return;
  for (size_t i = count; i-- > 0;)
    if (ranges[i].context == context)
      drop(i);
  fikit_unlock_around(&moving);
}

bool fikit_movable_lock(void) {
  return fikit_lock_around(&moving);
}

void fikit_movable_unlock(void) {
  fikit_unlock_around(&moving);
}

static uint64_t least(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

static uint64_t to_chunks(uint64_t bytes) {
  return bytes > UINT64_MAX - CHUNK_BYTES ? bytes : (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
}

/* Of the newest allocation the end leaves first; what came first comes back first. */
struct fikit_piece fikit_movable_next(uint64_t goal_bytes) {
  const uint64_t goal = least(goal_bytes, all_bytes);
  for (size_t i = count; all_resident > goal && i-- > 0;) {
    const struct range *range = &ranges[i];
    const uint64_t bytes = least(least(to_chunks(all_resident - goal), FIKIT_PIECE_BYTES), range->resident);
    if (bytes)
      return (struct fikit_piece){.at = range->at + (range->resident - bytes), .bytes = bytes, .in = false};
  }
  for (size_t i = 0; all_resident < goal && i < count; i++) {
    const struct range *range = &ranges[i];
    const uint64_t bytes = least(least(to_chunks(goal - all_resident), FIKIT_PIECE_BYTES), range->bytes - range->resident);
    if (bytes)
      return (struct fikit_piece){.at = range->at + range->resident, .bytes = bytes, .in = true};
  }
  return (struct fikit_piece){0};
}

void fikit_movable_moved(struct fikit_device *device, const struct fikit_piece *piece) {
  for (size_t i = 0; i < count; i++) {
    struct range *range = &ranges[i];
    if (piece->at < range->at || piece->at - range->at >= range->bytes)
      continue;
    set_resident(range, piece->at - range->at + (piece->in ? piece->bytes : 0));
    say(device);
    return;
  }
}

int64_t fikit_movable_settle(struct fikit_device *device, uint64_t goal_bytes) {
  const uint64_t before = all_resident;
  struct fikit_piece piece;
  while ((piece = fikit_movable_next(goal_bytes)).bytes)
    fikit_movable_moved(device, &piece);
  return (int64_t)(all_resident - before);
}

void fikit_movable_forget_all(void) {
  ranges = NULL; /* a thread may have been in the middle of it */
  count = room = 0;
  all_bytes = all_resident = 0;
}
