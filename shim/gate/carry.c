/*
 * The threads that launch carry the plan out. Behind a launch they hand over the moves that may begin there; before a launch that needs moves they have
 * its stream wait for them on the device. Moves go one behind the other on one stream, each behind the launch that it follows. So what is on the GPU when a
 * move to it begins is what the plan expects there, however long kernels take, and the budget is kept without a clock.
 *
 * One thread at a time does this (`carrying`). Another thread that launches meanwhile goes on, and what is due is done behind a later launch; moves that are too
 * late by then are skipped. The lock of the movable memory is held while moves are handed over, so that nothing is freed under them. It is not held
 * while a thread waits at the gate, or in a call of the driver for one of the program's streams.
 */
#include "gate/carry.h"
#include "base/clock.h"
#include "base/page.h"
#include "gate/gate.h"
#include "gate/lane.h"
#include "gate/marker.h"
#include "gate/plan.h"
#include "gate/prefetch.h"
#include "base/symbols.h"
#include "memory/extents.h"
#include "memory/movable.h"
#include "streams/capture.h"
#include "streams/context_end.h"
#include "streams/mark.h"

#include <pthread.h>

static atomic_flag carrying = ATOMIC_FLAG_INIT;
static _Atomic uint32_t settled; /* number of the plan that is carried out, or that was refused; 0: neither */

/* Under the lock of the movable memory. */
static struct fikit_taken_plan plan;
static struct fikit_device *planned; /* the plan's device; NULL: no plan was ever taken */

/* This thread carries the plan out from here to end(). False: another one does. Cancellation waits: no other thread could go on behind a cancelled one. */
static bool begin(int *cancelability) {
  if (atomic_flag_test_and_set_explicit(&carrying, memory_order_acquire))
    return false;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, cancelability);
  return true;
}

static void end(int cancelability) {
  atomic_flag_clear_explicit(&carrying, memory_order_release);
  pthread_setcancelstate(cancelability, &cancelability);
}

static void count(_Atomic uint64_t *counter, uint64_t more) {
  atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

/* Functions from here on are called under the lock of the movable memory, unless they say otherwise. */

/* The next launch at which a thread looks at the plan: the first that moves follow, that waits for one, or that has first uses. */
static void look_again(struct fikit_device *device) {
  const uint64_t moves = fikit_plan_next(&plan), launches = fikit_lane_next(), uses = fikit_plan_next_use(&plan);
  const uint64_t first = moves < launches ? moves : launches, next = first < uses ? first : uses;
  fikit_look_set(device, &device->plan_from, next == FIKIT_LOOK_NEVER ? FIKIT_LOOK_NEVER : next - 1);
}

/* For fikitd: number of the plan that is carried out; 0: none. */
static void publish_taken(struct fikit_device *device, uint32_t number, uint32_t known) {
  plan.number = number;
  atomic_store_explicit(&device->plan->taken, number, memory_order_relaxed);
  atomic_store_explicit(&settled, known, memory_order_relaxed);
}

/* The plan is not carried out any more, and no launch waits for its moves. `known`: the new value of `settled`. */
static void drop(struct fikit_device *device, uint32_t known) {
  fikit_lane_drop_waits();
  publish_taken(device, 0, known);
}

/* The driver has refused something: the plan is not tried again. */
static void refuse(struct fikit_device *device) {
  atomic_fetch_add_explicit(&device->plan->refused, 1, memory_order_relaxed);
  drop(device, plan.number);
}

/* The plan's lease has run out. */
static bool is_over(const struct fikit_device *device) {
  return atomic_load_explicit(&device->plan->until_ns, memory_order_relaxed) <= fikit_now_ns();
}

/* Reads fikitd's new plan and opens the lane for it. Nothing happens where a graph is being captured, without a current context, or while
 * fikitd writes: the next notice tries again. */
static void take(struct fikit_device *device) {
  CUcontext context = NULL;
  CUdevice ordinal;
  const uint32_t number = atomic_load_explicit(&device->plan->number, memory_order_relaxed);
  if (!fikit_prefetch_context(&context, &ordinal) || fikit_capture_anywhere())
    return;
  const uint64_t seq = atomic_load_explicit(&device->page->launch_seq, memory_order_relaxed) + 1;
  const enum fikit_plan_read read = fikit_plan_read(&plan, device->plan, seq);
  if (read == FIKIT_PLAN_CHANGES)
    return;
  planned = device;
  if (read == FIKIT_PLAN_SENSELESS)
    drop(device, number);
  else if (!fikit_lane_open(context))
    refuse(device);
  else
    publish_taken(device, plan.number, plan.number);
}

/* Without the lock, between begin() and end(): a new plan is taken, a withdrawn one dropped. */
static void notice(struct fikit_device *device) {
  if (!fikit_movable_lock())
    return;
  const uint32_t number = atomic_load_explicit(&device->plan->number, memory_order_acquire);
  if (number != atomic_load_explicit(&settled, memory_order_relaxed)) {
    drop(device, 0);
    if (number != 0 && !is_over(device))
      take(device);
    look_again(device);
  }
  fikit_movable_unlock();
}

void fikit_plan_notice(struct fikit_device *device) {
  int cancelability;
  if (!device->plan || FIKIT_LOAD(device->plan->number, relaxed) == atomic_load_explicit(&settled, memory_order_relaxed) ||
      !begin(&cancelability))
    return;
  notice(device);
  end(cancelability);
}

bool fikit_plan_before(struct fikit_device *device, const struct fikit_stream *entry, CUstream stream, uint64_t *first_use) {
  const uint64_t seq = atomic_load_explicit(&device->page->launch_seq, memory_order_relaxed) + 1;
  *first_use = 0;
  if (!fikit_movable_lock())
    return false;
  struct fikit_awaited *awaited = fikit_lane_awaited(entry, seq);
  const bool waits = awaited && !fikit_context_ends() && !fikit_capture_anywhere();
  if (fikit_plan_comes_to(&plan, seq))
    *first_use = seq;
  look_again(device);
  fikit_movable_unlock();
  const bool refused = waits && !fikit_lane_wait(stream, awaited);
  if (!awaited || !fikit_movable_lock())
    return false;
  fikit_lane_give_back(awaited, waits && !refused ? entry : NULL);
  if (refused) {
    refuse(device);
    look_again(device);
  }
  fikit_movable_unlock();
  return waits;
}

/* ---- behind a launch */

/* A launch, and how far this thread has come with the moves behind it. */
struct behind {
  struct fikit_device *device;
  struct fikit_stream *entry;
  CUstream stream;
  uint64_t seq;
  uint64_t newest;                             /* number of the newest launch that this thread knows of: this one, until it has waited at the gate */
  enum { UNORDERED, RECORDED, ORDERED } order; /* of the moves behind the launch. RECORDED: the event is; ORDERED: the lane waits for it */
  uint64_t marks;                              /* number of the newest mark before the event was recorded */
  bool caught_up;                              /* moves that are too late have been skipped */
  bool answered;                               /* the gate has let the next move through */
  bool moved;                                  /* and it was given to the driver */
  uint32_t granted;                            /* number of the request that fikitd granted; 0: none was needed */
};

/* What the thread does next. RECORD and ASK are done without the lock, and then the same move is looked at again; NEXT: the next move is. */
enum step { STOP, NEXT, RECORD, ASK };

/* What a move asks for at the gate. */
struct wanted {
  enum fikit_copy copy;
  uint64_t bytes;
};

static const struct fikit_plan_move *next_move(void) {
  return &plan.moves[plan.next];
}

/* The memory that the next move names, and how many bytes of it are elsewhere (`changes`). No bytes: it is gone. */
static struct fikit_piece piece_of(const struct fikit_device *device, uint64_t *changes) {
  const struct fikit_plan_move *move = next_move();
  const uint64_t base = fikit_extent_base(device, move->allocation);
  *changes = 0;
  return base ? fikit_movable_part(base, move->chunk, move->chunks, move->copy == FIKIT_COPY_IN, changes) : (struct fikit_piece){0};
}

/* The next move is left out: its memory is gone, or not yet there, or the move is too late. */
static void pass_over(struct fikit_device *device) {
  count(&device->plan->skipped, 1);
  fikit_plan_advance(&plan);
}

/* The next move is too late. Where it was one to the GPU page faults have brought its memory, which counts as being there. */
static void skip(struct fikit_device *device) {
  uint64_t changes;
  const struct fikit_piece piece = piece_of(device, &changes);
  if (piece.bytes && piece.in) {
    fikit_movable_moved(device, &piece);
    count(&device->page->moves.missed_bytes, changes);
  }
  pass_over(device);
}

/* The process is in the middle of a move to a goal (gate/move.c): the plan waits for its end. */
static bool goal_stands(const struct fikit_page *page) {
  const uint32_t goal = FIKIT_LOAD(page->moves.goal, acquire);
  return goal != 0 && goal != FIKIT_LOAD(page->moves.reached, relaxed) && !fikit_gate_open(page);
}

bool fikit_plan_any(void) {
  return atomic_load_explicit(&settled, memory_order_relaxed) != 0;
}

struct fikit_taken_plan *fikit_plan_carried(const struct fikit_device *device) {
  const bool stands = plan.number != 0 && planned == device && FIKIT_LOAD(device->plan->number, relaxed) == plan.number && !is_over(device);
  return stands && !goal_stands(device->page) && !fikit_capture_anywhere() ? &plan : NULL;
}

/* May the next move be made behind this launch? Also skips moves that are too late, and drops a plan that was withdrawn or whose lease has run out. */
static bool is_due(struct behind *behind) {
  struct fikit_device *device = behind->device;
  if (plan.number == 0 || planned != device)
    return false;
  if (FIKIT_LOAD(device->plan->number, acquire) != plan.number || is_over(device)) {
    drop(device, 0);
    return false;
  }
  if (fikit_capture_anywhere() || goal_stands(device->page))
    return false;
  if (!behind->caught_up)
    count(&device->plan->skipped, fikit_plan_catch_up(&plan, behind->newest));
  for (uint64_t late = behind->caught_up ? 0 : fikit_plan_late(&plan, behind->newest); late > 0; late--)
    skip(device);
  behind->caught_up = true;
  return fikit_plan_next(&plan) <= behind->seq;
}

/* Has the lane wait for the launch, in two steps: record() puts an event behind the launch, then the lane waits for the event. */
static enum step order(struct behind *behind, CUcontext context, bool *failed) {
  if (behind->order == RECORDED) {
    *failed |= !fikit_lane_follow();
    behind->order = ORDERED;
    return NEXT;
  }
  return fikit_lane_may_follow(behind->entry, context, failed) ? RECORD : STOP;
}

/* Does the move come behind the memory's allocation? */
static bool is_allocated(const struct behind *behind, CUdeviceptr at) {
  const struct fikit_mark *mark = fikit_movable_mark(at);
  return !mark || fikit_mark_is_before(mark, behind->entry, behind->marks) || fikit_movable_mark_passed(at);
}

/* Kind of the move of a piece of which so many bytes are elsewhere. */
static enum fikit_lane_rate kind_of(const struct fikit_piece *piece, uint64_t changes) {
  if (changes != piece->bytes)
    return FIKIT_NO_RATE;
  if (piece->in)
    return FIKIT_RATE_IN;
  return fikit_movable_was_out(piece) ? FIKIT_RATE_OUT : FIKIT_RATE_FIRST_OUT;
}

/* To fikitd. In pages of older versions nobody reads the page's words. */
static void publish_rates(struct fikit_device *device) {
  atomic_store_explicit(&device->page->moves_per_s[FIKIT_COPY_IN - 1], fikit_lane_bytes_per_s(true), memory_order_relaxed);
  atomic_store_explicit(&device->page->moves_per_s[FIKIT_COPY_OUT - 1], fikit_lane_bytes_per_s(false), memory_order_relaxed);
  atomic_store_explicit(&device->plan->bytes_per_s, fikit_lane_both_per_s(), memory_order_relaxed);
}

/* Gives the next move to the driver. */
static enum step hand_over(struct behind *behind, const struct fikit_piece *piece, CUdevice ordinal, enum fikit_lane_rate kind, bool *failed) {
  struct fikit_device *device = behind->device;
  if (!fikit_lane_has_room(failed))
    return STOP;
  const enum fikit_lane_answer answer = fikit_lane_move(piece, ordinal, piece->in ? fikit_plan_needed(&plan) : 0, kind);
  *failed |= answer != FIKIT_LANE_MOVES;
  if (answer == FIKIT_LANE_REFUSED)
    return STOP;
  const uint64_t changed = fikit_movable_moved(device, piece);
  fikit_movable_carried(piece->at, fikit_lane_newest());
  count(piece->in ? &device->page->moves.in_bytes : &device->page->moves.out_bytes, changed);
  count(&device->plan->carried_out, 1);
  publish_rates(device);
  behind->moved = true;
  if (changed && fikit_copies_matter(device->page))
    fikit_page_put(device->page, FIKIT_ENTRY_COPY, next_move()->copy, changed, fikit_now_ns());
  fikit_plan_advance(&plan);
  return NEXT;
}

/* One step for the next move that is due. */
static enum step go_on(struct behind *behind, struct wanted *wanted) {
  CUcontext context = NULL;
  CUdevice ordinal;
  bool failed = false;
  enum step step = STOP;
  if (!is_due(behind) || !fikit_prefetch_context(&context, &ordinal))
    return STOP;
  const struct fikit_piece piece = piece_of(behind->device, &wanted->bytes);
  wanted->copy = next_move()->copy;
  if (!piece.bytes) {
    pass_over(behind->device);
    return NEXT;
  }
  if (!piece.in && wanted->bytes == 0) { /* it is out */
    fikit_plan_advance(&plan);
    return NEXT;
  }
  if (behind->order != ORDERED)
    step = order(behind, context, &failed);
  else if (!is_allocated(behind, piece.at)) {
    pass_over(behind->device);
    step = NEXT;
  } else if (!behind->answered && wanted->bytes && fikit_copy_asks(behind->device->page, wanted->copy, wanted->bytes))
    return ASK;
  else
    step = hand_over(behind, &piece, ordinal, kind_of(&piece, wanted->bytes), &failed);
  if (failed)
    refuse(behind->device);
  return failed ? STOP : step;
}

/* Without the lock. */
static void ask(struct behind *behind, const struct wanted *wanted) {
  const struct fikit_pass pass = fikit_gate_wait_to_copy(behind->device, wanted->copy, wanted->bytes);
  behind->answered = true;
  behind->granted = pass.kind == FIKIT_ENTRY_GRANTED ? pass.request_seq : 0;
  const uint64_t newest = FIKIT_LOAD(behind->device->page->launch_seq, relaxed); /* others may have launched meanwhile */
  if (newest > behind->newest && newest <= FIKIT_PLAN_MOST_SEQ) {
    behind->newest = newest;
    behind->caught_up = false;
  }
}

/* Without the lock: fikitd learns when the move that it granted is over. */
static void answer_used(struct behind *behind) {
  if (behind->granted && behind->moved)
    fikit_marker_behind_move(behind->device, behind->entry, fikit_lane_stream(), behind->granted);
  else if (behind->granted)
    fikit_marker_skip(behind->device, 0, behind->granted);
  behind->granted = 0;
  behind->answered = false;
}

static enum step step_under_lock(struct behind *behind, struct wanted *wanted) {
  if (!fikit_movable_lock())
    return STOP;
  behind->moved = false;
  const enum step step = go_on(behind, wanted);
  look_again(behind->device);
  fikit_movable_unlock();
  if (behind->answered)
    answer_used(behind);
  return step;
}

/* Without the lock. */
static bool record(struct behind *behind) {
  behind->marks = fikit_mark_newest();
  const bool recorded = fikit_lane_record(behind->stream);
  behind->order = RECORDED;
  if (!recorded && fikit_movable_lock()) {
    refuse(behind->device);
    look_again(behind->device);
    fikit_movable_unlock();
  }
  return recorded && !fikit_capture_anywhere();
}

static void carry_out(struct behind *behind) {
  struct wanted wanted;
  for (;;) {
    switch (step_under_lock(behind, &wanted)) {
    case STOP:
      return;
    case NEXT:
      break;
    case RECORD:
      if (!record(behind))
        return;
      break;
    case ASK:
      ask(behind, &wanted);
      break;
    }
  }
}

void fikit_plan_after(struct fikit_device *device, struct fikit_stream *entry, CUstream stream, uint64_t seq) {
  struct behind behind = {.device = device, .entry = entry, .stream = stream, .seq = seq, .newest = seq};
  int cancelability;
  if (!device->plan || !seq || seq > FIKIT_PLAN_MOST_SEQ || !begin(&cancelability))
    return;
  if (FIKIT_LOAD(device->plan->number, relaxed) != atomic_load_explicit(&settled, memory_order_relaxed))
    notice(device);
  carry_out(&behind);
  end(cancelability);
}

void fikit_plan_context_gone(CUcontext context) {
  if (!fikit_movable_lock_for_good())
    return;
  if (fikit_lane_context_gone(context) && planned) {
    drop(planned, 0);
    look_again(planned);
  }
  fikit_movable_unlock();
}

void fikit_plan_forget_all(void) {
  atomic_flag_clear(&carrying);
  atomic_store(&settled, 0);
  plan.number = 0;
  planned = NULL;
  fikit_lane_forget_all();
}
