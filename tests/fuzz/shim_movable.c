/*
 * The shim's table of memory that may leave the GPU (memory/movable.h), with allocations, frees, goals and moves of any sizes in any order:
 * what it says of the sums is so, pieces lie within their allocations, the way to a goal ends, and what came in stream order is not moved before its
 * stream has come there. Then the same with another thread that moves.
 *
 * A libFuzzer target (`make fuzz`), or a program of its own (alone.c). The driver is not there.
 */
#include "memory/movable.h"

#include "beside.h"

enum { PLACES = 16, CONTEXTS = 3, MIB = 1 << 20 };

/* The input: one after the other. */
struct op {
  uint8_t what, place;
  uint16_t kib; /* of an allocation: in steps of 63 KiB, so that few end with a chunk */
  uint32_t goal;
};

static struct fikit_page page;
static struct fikit_device device = {.page = &page};
struct fikit_mark {
  bool out, reached;
};
static struct {
  _Atomic uint64_t bytes; /* 0: nothing is there */
  CUcontext context;      /* NULL: it came in stream order */
  struct fikit_mark mark; /* under the lock of the table; `reached` also before its memory comes */
  uint64_t carried;
} places[PLACES];

static CUdeviceptr address_of(size_t place) {
  return 0x700000000000 + place * ((uint64_t)8 << 30);
}

static uint64_t held(void) {
  uint64_t sum = 0;
  for (size_t i = 0; i < PLACES; i++)
    sum += places[i].bytes;
  return sum;
}

/* Whoever has seen a mark last sees it no more. */
static bool passed(struct fikit_mark *mark) {
  check(mark->out);
  mark->out = !mark->reached;
  return mark->reached;
}

static void dropped(struct fikit_mark *mark) {
  check(mark->out);
  mark->out = false;
}

static CUstream freed_at_once(CUdeviceptr at) {
  return (CUstream)(uintptr_t)at;
}

static const struct fikit_order in_order = {passed, dropped, freed_at_once};

/* Of places whose stream has not come there. */
static uint64_t held_back(void) {
  uint64_t sum = 0;
  for (size_t i = 0; i < PLACES; i++)
    sum += places[i].mark.out && !places[i].mark.reached ? places[i].bytes : 0;
  return sum;
}

/* Under the lock: nothing goes meanwhile. */
static void check_piece(const struct fikit_piece *piece) {
  const size_t place = (size_t)((piece->at - address_of(0)) / ((uint64_t)8 << 30));
  const uint64_t offset = piece->at - address_of(place % PLACES);
  check(place < PLACES && offset % FIKIT_CHUNK_BYTES == 0 && offset + piece->bytes <= places[place].bytes);
  check(piece->bytes <= (uint64_t)FIKIT_PLAN_CHUNKS * FIKIT_CHUNK_BYTES);
}

/* So many steps at most. Returns whether nothing is left to be done. */
static bool move_towards(uint64_t goal, int steps) {
  struct fikit_piece piece = {0};
  while (steps-- > 0 && (piece = fikit_movable_next(goal)).bytes) {
    check_piece(&piece);
    check(!places[(piece.at - address_of(0)) / ((uint64_t)8 << 30)].mark.out);
    check(fikit_movable_moved(&device, &piece) > 0);
  }
  return !piece.bytes;
}

static void reach(uint64_t goal) {
  const uint64_t all = held(), wanted = goal < all ? goal : all;
  check(move_towards(goal, 20000) && fikit_movable_settle(&device, goal) == 0);
  const uint64_t resident = atomic_load(&page.moves.resident_bytes), back = held_back();
  check(resident <= wanted + back && resident + FIKIT_CHUNK_BYTES > wanted);
  check(fikit_movable_left(goal) == (resident > wanted ? resident - wanted : wanted - resident));
}

static void move_part(const struct op *op) {
  uint64_t changes = 0;
  const struct fikit_piece piece = fikit_movable_part(address_of(op->place % PLACES), op->goal % 300, 1 + op->goal / 300 % FIKIT_PLAN_CHUNKS,
                                                      op->goal >> 31, &changes);
  if (!piece.bytes)
    return;
  check_piece(&piece);
  const size_t place = op->place % PLACES;
  check(piece.in_order == !places[place].context);
  check((fikit_movable_mark(address_of(place)) == &places[place].mark) == places[place].mark.out);
  if (!fikit_movable_mark_passed(address_of(place)))
    return;
  check(!places[place].mark.out);
  fikit_movable_carried(piece.at, ++places[place].carried);
  const uint64_t before = atomic_load(&page.moves.resident_bytes);
  check(fikit_movable_moved(&device, &piece) == changes);
  check(atomic_load(&page.moves.resident_bytes) == (piece.in ? before + changes : before - changes));
}

/* Waits for a piece that is being moved. */
static void leave(size_t place, bool by_plan) {
  const bool asks = !places[place].context && places[place].carried;
  check((fikit_movable_freed_at_once(address_of(place)) != NULL) == asks);
  if (by_plan) {
    check(fikit_movable_lock());
    check(fikit_movable_take(address_of(place)) == places[place].carried);
    fikit_movable_unlock();
  }
  fikit_movable_gone(address_of(place));
  check(!places[place].mark.out);
  places[place].bytes = 0;
}

static void come_or_go(const struct op *op) {
  const size_t place = op->place % PLACES;
  if (places[place].bytes) {
    leave(place, op->goal % 2);
    return;
  }
  const uint64_t bytes = 1 + op->kib * UINT64_C(63) * 1024;
  places[place].context = (CUcontext)(uintptr_t)(op->kib % (CONTEXTS + 1));
  places[place].bytes = bytes;
  places[place].carried = 0;
  places[place].mark = (struct fikit_mark){!places[place].context, op->goal % 3 == 0};
  if (places[place].context)
    check(fikit_movable_came(&device, places[place].context, address_of(place), bytes));
  else
    check(fikit_movable_came_in_order(&device, address_of(place), bytes, &places[place].mark, &in_order));
}

static void end_context(CUcontext context) {
  fikit_movable_context_gone(context);
  for (size_t i = 0; i < PLACES; i++)
    if (places[i].context == context)
      places[i].bytes = 0;
}

/* alone: nobody else moves, so that goals are reached. */
static void play(const struct op *op, bool alone) {
  switch (op->what % 8) {
  case 0:
    end_context((CUcontext)(uintptr_t)(1 + op->place % CONTEXTS));
    break;
  case 1:
  case 2:
    check(fikit_movable_lock());
    if (alone)
      reach(op->goal * UINT64_C(1024));
    else
      move_towards(op->goal * UINT64_C(1024), 4);
    fikit_movable_unlock();
    break;
  case 3:
    check(fikit_movable_lock());
    move_part(op);
    fikit_movable_unlock();
    break;
  default:
    come_or_go(op);
  }
  check(!alone || atomic_load(&page.moves.movable_bytes) == held());
}

static void *move(void *argument) {
  for (uint64_t goal = 1; !over; goal = goal * 25214903917u + 11) {
    check(fikit_movable_lock());
    move_towards(goal >> 32, 4);
    fikit_movable_unlock();
  }
  return argument;
}

static void empty(void) {
  for (size_t i = 0; i < CONTEXTS; i++)
    end_context((CUcontext)(uintptr_t)(1 + i));
  for (size_t i = 0; i < PLACES; i++)
    if (places[i].bytes)
      leave(i, false);
  check(atomic_load(&page.moves.movable_bytes) == 0 && atomic_load(&page.moves.resident_bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  page.version = FIKIT_PROTOCOL_VERSION;
  play_alone_and_beside(data, size, sizeof(struct op), play, move, empty);
  return 0;
}
