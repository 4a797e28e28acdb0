#include "memory/movable.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/nap.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 64, CHUNKS_OF_WORD = 64, MOST_GONE = 64 };
enum { LEASE_NS = 1000000000, LONG_NAP_NS = 200000 };
#define PEAK_HOLDS_NS INT64_C(5000000000)

/* An allocation, in chunks from its begin. */
struct range {
  CUdeviceptr at;
  uint64_t bytes, resident;
  uint64_t *on_gpu;                /* a bit for each chunk that is on the GPU */
  uint64_t *was_out;               /* a bit for each chunk that was moved out; one piece of memory with `on_gpu` */
  uint64_t *is_old;                /* a bit for each chunk that was moved, or taken as new; likewise */
  CUcontext context;               /* NULL: of memory in stream order */
  struct fikit_device *device;
  const struct fikit_order *order; /* of memory in stream order; NULL: any stream may use it since it came */
  struct fikit_mark *mark;         /* of its allocation; NULL: there is none, or the stream has passed it */
  uint64_t last_move;              /* number of the plan's newest move of it; 0: none */
  bool taken_new;                  /* chunks of it were */
};

static _Atomic bool locked;
static _Atomic bool any_taken_new; /* of any memory, also of what has gone */
/* All under the lock, in the order in which they came. */
static struct range *ranges;
static size_t count, room;               /* ranges, and for how many there is memory */
static uint64_t all_bytes, all_resident; /* of all ranges together */
static uint64_t peak_bytes;              /* the most that all_bytes lately was */
static int64_t peak_at_ns;               /* when it last was */

/* For fikitd: how much movable memory there is, and how much of it is on the GPU. */
static void publish(const struct fikit_device *device) {
  struct fikit_page *page = device->page;
  if (page->version < FIKIT_SINCE_MOVES)
    return;
  atomic_store_explicit(&page->moves.movable_bytes, all_bytes, memory_order_relaxed);
  atomic_store_explicit(&page->moves.resident_bytes, all_resident, memory_order_relaxed);
}

/* For fikitd, after memory was added: the most that there was at a time, of the last PEAK_HOLDS_NS. */
static void publish_peak(const struct fikit_device *device) {
  struct fikit_page *page = device->page;
  const int64_t now_ns = fikit_now_ns();
  if (page->version < FIKIT_SINCE_MOVES || (all_bytes < peak_bytes && now_ns - peak_at_ns < PEAK_HOLDS_NS))
    return;
  peak_bytes = all_bytes;
  peak_at_ns = now_ns;
  atomic_store_explicit(&page->most_movable_bytes, peak_bytes, memory_order_relaxed);
  atomic_store_explicit(&page->most_movable_ns, peak_at_ns, memory_order_relaxed);
}

static uint64_t least(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

static uint64_t chunks_of(uint64_t bytes) {
  return bytes / FIKIT_CHUNK_BYTES + (bytes % FIKIT_CHUNK_BYTES != 0);
}

/* Bytes of `chunks` chunks from this one on: the allocation's last chunk may be shorter. */
static uint64_t bytes_of(const struct range *range, uint64_t chunk, uint64_t chunks) {
  return least(range->bytes, (chunk + chunks) * FIKIT_CHUNK_BYTES) - least(range->bytes, chunk * FIKIT_CHUNK_BYTES);
}

static bool is_resident(const struct range *range, uint64_t chunk) {
  return range->on_gpu[chunk / CHUNKS_OF_WORD] >> chunk % CHUNKS_OF_WORD & 1;
}

/* How many bytes of these chunks are not where a move in (`in`) or out would bring them. */
static uint64_t elsewhere(const struct range *range, uint64_t chunk, uint64_t chunks, bool in) {
  uint64_t bytes = 0;
  for (uint64_t i = chunk; i < chunk + chunks; i++)
    bytes += is_resident(range, i) != in ? bytes_of(range, i, 1) : 0;
  return bytes;
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

static void drop(size_t i) {
  struct fikit_device *device = ranges[i].device;
  all_bytes -= ranges[i].bytes;
  all_resident -= ranges[i].resident;
  free(ranges[i].on_gpu);
  if (ranges[i].mark)
    ranges[i].order->dropped(ranges[i].mark);
  count--;
  for (; i < count; i++) /* they keep their order: what came first comes first */
    ranges[i] = ranges[i + 1];
  publish(device);
}

/* ---- the lock. Moves are made under it, and a driver may block in a move. The program's other threads then go on without the lock: the first of them after a lease,
 * later ones at once, until the thread in the driver has unlocked. */

static _Atomic bool overdue; /* a thread has waited for a lease in vain */
static _Atomic unsigned waiting; /* threads */
/* Memory that was freed without the lock: the next thread with the lock drops it. Where there are too many to remember all memory is dropped, and moves no more. */
static _Atomic CUdeviceptr gone[MOST_GONE];
static _Atomic bool any_gone, too_many_gone;

static void note_gone(CUdeviceptr at) {
  bool kept = false;
  for (size_t i = 0; i < MOST_GONE && !kept; i++) {
    CUdeviceptr nothing = 0;
    kept = atomic_compare_exchange_strong(&gone[i], &nothing, at);
  }
  if (!kept)
    atomic_store(&too_many_gone, true);
  atomic_store(&any_gone, true);
}

static void drop_at(CUdeviceptr at) {
  for (size_t i = count; i-- > 0;)
    if (ranges[i].at == at)
      drop(i);
}

static void drop_gone(void) {
  if (!atomic_load_explicit(&any_gone, memory_order_relaxed) || !atomic_exchange(&any_gone, false))
    return;
  for (size_t i = 0; i < MOST_GONE; i++) {
    const CUdeviceptr at = atomic_exchange(&gone[i], 0);
    if (at)
      drop_at(at);
  }
  if (atomic_exchange(&too_many_gone, false))
    while (count > 0)
      drop(count - 1);
}

bool fikit_movable_lock(void) {
  if (fikit_locked())
    return false;
  atomic_fetch_add_explicit(&waiting, 1, memory_order_relaxed);
  const bool taken = fikit_lock_around_for(&locked, atomic_load_explicit(&overdue, memory_order_relaxed) ? 0 : LEASE_NS);
  atomic_fetch_sub_explicit(&waiting, 1, memory_order_relaxed);
  if (taken)
    drop_gone();
  else
    atomic_store_explicit(&overdue, true, memory_order_relaxed);
  return taken;
}

bool fikit_movable_lock_for_good(void) {
  if (!fikit_lock_around_for(&locked, INT64_MAX))
    return false;
  drop_gone();
  return true;
}

void fikit_movable_unlock(void) {
  atomic_store_explicit(&overdue, false, memory_order_relaxed);
  fikit_unlock_around_for(&locked);
}

void fikit_movable_let_others(void) {
  if (atomic_load_explicit(&waiting, memory_order_relaxed) > 0)
    fikit_nap(LONG_NAP_NS);
}

/* ---- what comes and goes */

/* False: the shim has no memory to remember it in. */
static bool add(const struct range *range) {
  if (!fikit_movable_lock())
    return false;
  const size_t words = (size_t)(chunks_of(range->bytes) + CHUNKS_OF_WORD - 1) / CHUNKS_OF_WORD;
  uint64_t *bits = make_room() ? malloc(3 * words * sizeof *bits) : NULL;
  const bool kept = bits != NULL;
  if (kept) {
    memset(bits, 0xff, words * sizeof *bits);
    memset(bits + words, 0, 2 * words * sizeof *bits);
    ranges[count] = *range;
    ranges[count].on_gpu = bits;
    ranges[count].was_out = bits + words;
    ranges[count].is_old = bits + 2 * words;
    ranges[count++].resident = range->bytes;
    all_bytes += range->bytes;
    all_resident += range->bytes;
    publish(range->device);
    publish_peak(range->device);
  }
  fikit_movable_unlock();
  return kept;
}

bool fikit_movable_came(struct fikit_device *device, CUcontext context, CUdeviceptr at, uint64_t bytes) {
  return add(&(struct range){.at = at, .bytes = bytes, .context = context, .device = device});
}

bool fikit_movable_came_in_order(struct fikit_device *device, CUdeviceptr at, uint64_t bytes, struct fikit_mark *mark,
                                 const struct fikit_order *order) {
  return add(&(struct range){.at = at, .bytes = bytes, .device = device, .order = order, .mark = mark});
}

/* Has its stream come to the allocation? */
static bool is_allocated(struct range *range) {
  if (range->mark && range->order->passed(range->mark))
    range->mark = NULL;
  return !range->mark;
}

uint64_t fikit_movable_take(CUdeviceptr at) {
  for (size_t i = count; i-- > 0;)
    if (ranges[i].at == at) {
      const uint64_t move = ranges[i].last_move;
      drop(i);
      return move;
    }
  return 0;
}

void fikit_movable_gone(CUdeviceptr at) {
  if (!fikit_movable_lock()) {
    note_gone(at);
    return;
  }
  fikit_movable_take(at);
  fikit_movable_unlock();
}

void fikit_movable_context_gone(CUcontext context) {
  if (!fikit_movable_lock_for_good())
    return;
  for (size_t i = count; i-- > 0;)
    if (ranges[i].context == context)
      drop(i);
  fikit_movable_unlock();
}

/* To leave: the last chunks on the GPU that lie together, as many as `wanted` (> 0) bytes need, rounded up to whole chunks. */
static struct fikit_piece last_out(const struct range *range, uint64_t wanted) {
  uint64_t end = chunks_of(range->bytes);
  while (end > 0 && !is_resident(range, end - 1))
    end--;
  uint64_t begin = end;
  while (begin > 0 && is_resident(range, begin - 1) && end - begin < FIKIT_PLAN_CHUNKS && bytes_of(range, begin, end - begin) < wanted)
    begin--;
  return (struct fikit_piece){.at = range->at + begin * FIKIT_CHUNK_BYTES, .bytes = bytes_of(range, begin, end - begin), .in = false};
}

/* To come: the first chunks off the GPU that lie together, for at most `wanted` bytes, perhaps none: a chunk too many would have to leave again. */
static struct fikit_piece first_in(const struct range *range, uint64_t wanted) {
  const uint64_t chunks = chunks_of(range->bytes);
  uint64_t begin = 0;
  while (begin < chunks && is_resident(range, begin))
    begin++;
  uint64_t end = begin;
  while (end < chunks && !is_resident(range, end) && end - begin < FIKIT_PLAN_CHUNKS && bytes_of(range, begin, end + 1 - begin) <= wanted)
    end++;
  return (struct fikit_piece){.at = range->at + begin * FIKIT_CHUNK_BYTES, .bytes = bytes_of(range, begin, end - begin), .in = true};
}

/* The newest allocation leaves first, from its end; the oldest comes back first, from its begin. */
struct fikit_piece fikit_movable_next(uint64_t goal_bytes) {
  const uint64_t goal = least(goal_bytes, all_bytes);
  for (size_t i = count; all_resident > goal && i-- > 0;)
    if (ranges[i].resident > 0 && is_allocated(&ranges[i]))
      return last_out(&ranges[i], all_resident - goal);
  struct fikit_piece piece = {0};
  for (size_t i = 0; all_resident < goal && !piece.bytes && i < count; i++)
    if (ranges[i].resident < ranges[i].bytes && is_allocated(&ranges[i]))
      piece = first_in(&ranges[i], goal - all_resident);
  return piece;
}

uint64_t fikit_movable_left(uint64_t goal_bytes) {
  const uint64_t goal = least(goal_bytes, all_bytes);
  return all_resident > goal ? all_resident - goal : goal - all_resident;
}

static struct range *range_at(CUdeviceptr address) {
  for (size_t i = 0; i < count; i++)
    if (address >= ranges[i].at && address - ranges[i].at < ranges[i].bytes)
      return &ranges[i];
  return NULL;
}

/* It begins at `at`, and has these chunks. */
static bool has(const struct range *range, CUdeviceptr at, uint64_t chunk, uint64_t chunks) {
  return range->at == at && chunk < chunks_of(range->bytes) && chunks <= chunks_of(range->bytes) - chunk;
}

struct fikit_piece fikit_movable_part(CUdeviceptr at, uint64_t chunk, uint64_t chunks, bool in, uint64_t *changes) {
  const struct range *range = range_at(at);
  if (!range || !has(range, at, chunk, chunks))
    return (struct fikit_piece){0};
  *changes = elsewhere(range, chunk, chunks, in);
  return (struct fikit_piece){
    .at = at + chunk * FIKIT_CHUNK_BYTES, .bytes = bytes_of(range, chunk, chunks), .in = in, .in_order = range->order != NULL};
}

static bool is_new(const struct range *range, uint64_t chunk) {
  return !(range->is_old[chunk / CHUNKS_OF_WORD] >> chunk % CHUNKS_OF_WORD & 1);
}

struct fikit_piece fikit_movable_take_new(CUcontext context, CUdeviceptr at, uint64_t chunk, uint64_t chunks) {
  struct range *range = range_at(at);
  if (!range || range->context != context || !has(range, at, chunk, chunks))
    return (struct fikit_piece){0};
  const uint64_t behind = chunk + chunks;
  while (chunk < behind && !is_new(range, chunk))
    chunk++;
  uint64_t end = chunk;
  for (; end < behind && is_new(range, end); end++)
    range->is_old[end / CHUNKS_OF_WORD] |= UINT64_C(1) << end % CHUNKS_OF_WORD;
  if (end > chunk) {
    range->taken_new = true;
    atomic_store_explicit(&any_taken_new, true, memory_order_relaxed);
  }
  return (struct fikit_piece){.at = range->at + chunk * FIKIT_CHUNK_BYTES, .bytes = bytes_of(range, chunk, end - chunk), .in = true};
}

bool fikit_movable_was_taken_new(CUdeviceptr at) {
  if (!atomic_load_explicit(&any_taken_new, memory_order_relaxed))
    return false;
  if (!fikit_movable_lock())
    return true;
  const struct range *range = range_at(at);
  const bool taken_new = range && range->at == at && range->taken_new;
  fikit_movable_unlock();
  return taken_new;
}

CUstream fikit_movable_freed_at_once(CUdeviceptr at) {
  if (!fikit_movable_lock())
    return NULL;
  const struct range *range = range_at(at);
  const struct fikit_order *order = range && range->at == at && range->last_move ? range->order : NULL;
  fikit_movable_unlock();
  return order ? order->freed_at_once(at) : NULL;
}

struct fikit_mark *fikit_movable_mark(CUdeviceptr at) {
  const struct range *range = range_at(at);
  return range ? range->mark : NULL;
}

bool fikit_movable_mark_passed(CUdeviceptr at) {
  struct range *range = range_at(at);
  return !range || is_allocated(range);
}

void fikit_movable_carried(CUdeviceptr at, uint64_t move) {
  struct range *range = range_at(at);
  if (range)
    range->last_move = move;
}

bool fikit_movable_was_out(const struct fikit_piece *piece) {
  const struct range *range = range_at(piece->at);
  const uint64_t chunk = range ? (piece->at - range->at) / FIKIT_CHUNK_BYTES : 0;
  bool was_out = range != NULL;
  for (uint64_t i = chunk; was_out && i < chunk + chunks_of(piece->bytes); i++)
    was_out = range->was_out[i / CHUNKS_OF_WORD] >> i % CHUNKS_OF_WORD & 1;
  return was_out;
}

uint64_t fikit_movable_moved(struct fikit_device *device, const struct fikit_piece *piece) {
  struct range *range = range_at(piece->at);
  if (!range)
    return 0;
  const uint64_t chunk = (piece->at - range->at) / FIKIT_CHUNK_BYTES, chunks = chunks_of(piece->bytes);
  const uint64_t changed = elsewhere(range, chunk, chunks, piece->in);
  for (uint64_t i = chunk; i < chunk + chunks; i++) {
    const uint64_t bit = UINT64_C(1) << i % CHUNKS_OF_WORD;
    uint64_t *word = &range->on_gpu[i / CHUNKS_OF_WORD];
    *word = piece->in ? *word | bit : *word & ~bit;
    range->was_out[i / CHUNKS_OF_WORD] |= piece->in ? 0 : bit;
    range->is_old[i / CHUNKS_OF_WORD] |= bit;
  }
  range->resident += piece->in ? changed : -changed;
  all_resident += piece->in ? changed : -changed;
  publish(device);
  return changed;
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
  all_bytes = all_resident = peak_bytes = 0;
  peak_at_ns = 0;
  for (size_t i = 0; i < MOST_GONE; i++)
    atomic_store(&gone[i], 0);
  atomic_store(&any_taken_new, false);
  atomic_store(&any_gone, false);
  atomic_store(&too_many_gone, false);
  atomic_store(&overdue, false);
  atomic_store(&waiting, 0);
  atomic_store(&locked, false);
}
