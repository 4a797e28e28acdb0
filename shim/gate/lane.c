/*
 * A launch must not wait for a move that itself waits for work which ends only after that launch: a kernel may spin until a later kernel in
 * another stream has run. So a launch waits for moves only if everything that the lane has waited for, since it was last known to be empty, was
 * in the launch's own stream: the launch comes behind all of that anyway. Streams are compared by handle and epoch (struct fikit_stream_id): a
 * handle may be given out anew after its stream was destroyed, and each thread has a per-thread default stream of its own.
 *
 * The legacy default stream waits for all blocking streams and they for it, so an event recorded there holds up what is launched into others
 * behind it. Recorded directly behind a launch into the legacy stream it adds nothing, unless another thread has launched in between: so the
 * lane follows the legacy stream only while all other streams are known to have completed.
 */
#include "gate/lane.h"
#include "base/look.h"
#include "base/symbols.h"
#include "gate/prefetch.h"
#include "streams/capture.h"

#include <string.h>

enum {
  AWAITED = 512,             /* moves under way for which a launch can wait; further ones are not waited for */
  BETWEEN_CHECKS = 128,      /* moves; the device is at most twice as many behind: a driver makes a thread wait whose stream is full */
  CHECKS = 2,
  KEPT_EVENTS = 128,         /* events behind the newest moves are kept for frees, while there is room */
  UNCOUNTED = 4,             /* the first timed moves of a kind do not count: they meet page faults */
  AVERAGED = 8,              /* timed moves over which a rate is averaged; with fewer there is no rate */
  ALL_NEW = 64,              /* timed first moves out, with none of memory that was out before: the program takes all of its memory anew */
  CLOCKS = 4,                /* moves that are timed at once, where the host is far ahead of them */
  MOVES_BETWEEN_CLOCKS = 16, /* from one timed move to the next of its kind, while others are being timed */
};

/* The time of a move by the device's clock. */
struct fikit_move_clock {
  CUevent begin, end;
  uint64_t bytes; /* of its move */
  enum fikit_lane_rate kind;
};

struct fikit_rate {
  double ns_per_byte;
  unsigned moves; /* timed so far, ALL_NEW at most */
};

struct fikit_awaited {
  CUevent event;   /* behind the move; NULL: not created */
  uint64_t launch; /* number of the launch that waits for the move; 0: none does */
  uint64_t number; /* of the move, in the order of the lane */
  bool held;       /* between fikit_lane_awaited and fikit_lane_give_back: not to be used for another move */
};

static struct {
  CUcontext context;
  CUstream stream;
  CUevent launched; /* recorded behind the launch that the next moves wait for */
  struct {
    CUevent event; /* behind every BETWEEN_CHECKSth move */
    bool pending;  /* recorded, and not known to be complete */
  } check[CHECKS];
  uint64_t moves;                 /* that the driver was given so far */
  uint64_t completed;             /* number of the newest move that is known to be complete */
  uint64_t awaited_up_to;         /* number of the newest move for which a launch into `follows` has waited */
  struct fikit_stream_id follows; /* the only stream that the lane may still wait for */
  bool follows_several;           /* the lane may still wait for work of other streams too: no launch waits for the lane */
  bool in_order;                  /* memory in stream order was moved: its free looks for an event behind the move */
  struct {
    struct fikit_move_clock clock[CLOCKS]; /* used in turn */
    unsigned oldest, pending;              /* the clock of the oldest move that is being timed, and how many are */
    uint64_t newest[FIKIT_NO_RATE];        /* by kind: number of the newest move that was timed */
    struct fikit_rate rate[FIKIT_NO_RATE]; /* by kind */
  } timed;
  unsigned used; /* entries of `awaited` that were ever in use: the first ones */
  struct fikit_awaited awaited[AWAITED];
} lane;

static _Atomic bool was_open;

static bool is_legacy(const struct fikit_stream *entry) {
  return atomic_load_explicit(&entry->handle, memory_order_relaxed) == (uintptr_t)CU_STREAM_LEGACY;
}

/* Creates the event unless it is there; false: the driver refuses. */
static bool event_made(CUevent *event) {
  return *event || REAL(cuEventCreate)(event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
}

/* The lane could not be made whole. The next try may be in another context, so nothing of this one is kept. */
static void undo(void) {
  CUevent *const events[] = {&lane.launched, &lane.check[0].event, &lane.check[1].event};
  for (unsigned i = 0; i < sizeof events / sizeof *events; i++) {
    if (*events[i])
      REAL(cuEventDestroy_v2)(*events[i]);
    *events[i] = NULL;
  }
  if (lane.stream)
    REAL(cuStreamDestroy_v2)(lane.stream);
  lane.stream = NULL;
}

bool fikit_lane_open(CUcontext context) {
  if (lane.context)
    return true;
  const int mode = fikit_capture_relax();
  lane.stream = fikit_prefetch_stream();
  bool made = lane.stream && event_made(&lane.launched);
  for (int i = 0; i < CHECKS; i++)
    made = made && event_made(&lane.check[i].event);
  if (!made)
    undo();
  fikit_capture_restore(mode);
  lane.context = made ? context : NULL;
  if (made)
    atomic_store_explicit(&was_open, true, memory_order_relaxed);
  return made;
}

bool fikit_lane_was_open(void) {
  return atomic_load_explicit(&was_open, memory_order_relaxed);
}

/* The device is done with all that was put into the lane: the lane waits for no launch any more. */
static bool is_empty(bool *failed) {
  const int mode = fikit_capture_relax();
  const CUresult result = REAL(cuStreamQuery)(lane.stream);
  fikit_capture_restore(mode);
  *failed |= result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
  if (result == CUDA_SUCCESS)
    lane.completed = lane.moves;
  return result == CUDA_SUCCESS;
}

/* The check that the next move comes under; only every BETWEEN_CHECKSth move looks at one. */
static unsigned next_check(void) {
  return (unsigned)(lane.moves / BETWEEN_CHECKS % CHECKS);
}

bool fikit_lane_has_room(bool *failed) {
  const unsigned i = next_check();
  if (lane.moves % BETWEEN_CHECKS != 0 || !lane.check[i].pending)
    return true;
  const int mode = fikit_capture_relax();
  const CUresult result = REAL(cuEventQuery)(lane.check[i].event);
  fikit_capture_restore(mode);
  *failed |= result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
  lane.check[i].pending = result != CUDA_SUCCESS;
  return !lane.check[i].pending;
}

static bool holds_up_others(const struct fikit_stream *entry) {
  return is_legacy(entry) && !fikit_stream_covers(entry);
}

bool fikit_lane_follows(const struct fikit_stream *entry) {
  return !lane.follows_several && fikit_stream_is(&lane.follows, entry) && !holds_up_others(entry);
}

bool fikit_lane_may_follow(struct fikit_stream *entry, CUcontext context, bool *failed) {
  if (lane.context != context || atomic_load_explicit(&entry->context, memory_order_relaxed) != context || !fikit_stream_is_one(entry) ||
      holds_up_others(entry))
    return false;
  if (fikit_stream_is(&lane.follows, entry) && !lane.follows_several)
    return true;
  if (!lane.follows.entry || is_empty(failed)) {
    lane.follows = fikit_stream_id(entry);
    lane.follows_several = false;
    lane.awaited_up_to = 0;
  } else {
    lane.follows_several = true;
  }
  return !*failed;
}

bool fikit_lane_record(CUstream stream) {
  return REAL(cuEventRecord)(lane.launched, stream) == CUDA_SUCCESS;
}

bool fikit_lane_follow(void) {
  return REAL(cuStreamWaitEvent)(lane.stream, lane.launched, 0) == CUDA_SUCCESS;
}

/* The entry with the oldest event that no launch waits for. Where frees look for events, those behind the newest moves are kept while there is room. */
static struct fikit_awaited *unused_awaited(void) {
  struct fikit_awaited *oldest = NULL;
  for (struct fikit_awaited *each = lane.awaited; each < lane.awaited + lane.used; each++)
    if (each->launch == 0 && !each->held && (!oldest || each->number < oldest->number))
      oldest = each;
  if (oldest && (!lane.in_order || lane.used == AWAITED || lane.moves - oldest->number > KEPT_EVENTS))
    return oldest;
  return lane.used < AWAITED ? &lane.awaited[lane.used++] : NULL;
}

/* Records an event behind the newest move, for the launch of this number to wait for; 0: for none. Without an unused entry there is no event: the launch does not
 * wait, and meets page faults. False: the driver refuses. */
static bool record_awaited(uint64_t launch) {
  struct fikit_awaited *awaited = unused_awaited();
  if (!awaited)
    return true;
  if (!event_made(&awaited->event) || REAL(cuEventRecord)(awaited->event, lane.stream) != CUDA_SUCCESS)
    return false;
  awaited->launch = launch;
  awaited->number = lane.moves;
  return true;
}

/* Starts a clock for the next move; NULL: it is not timed. An error of the driver leaves the move untimed, and has no other effect. */
static struct fikit_move_clock *begin_timing(enum fikit_lane_rate kind) {
  if (kind == FIKIT_NO_RATE || lane.timed.pending == CLOCKS || (lane.timed.pending != 0 && lane.moves - lane.timed.newest[kind] < MOVES_BETWEEN_CLOCKS))
    return NULL;
  struct fikit_move_clock *clock = &lane.timed.clock[(lane.timed.oldest + lane.timed.pending) % CLOCKS];
  CUevent *const events[] = {&clock->begin, &clock->end};
  for (int i = 0; i < 2; i++)
    if (!*events[i] && REAL(cuEventCreate)(events[i], 0) != CUDA_SUCCESS)
      return NULL;
  return REAL(cuEventRecord)(clock->begin, lane.stream) == CUDA_SUCCESS ? clock : NULL;
}

/* Its move of so many bytes was given to the driver. */
static void end_timing(struct fikit_move_clock *clock, uint64_t bytes, enum fikit_lane_rate kind) {
  if (REAL(cuEventRecord)(clock->end, lane.stream) != CUDA_SUCCESS)
    return;
  clock->bytes = bytes;
  clock->kind = kind;
  lane.timed.newest[kind] = lane.moves;
  lane.timed.pending++;
}

/* Reads the clocks of completed moves, the oldest first; those of later moves run on. */
static void read_clocks(void) {
  for (; lane.timed.pending != 0; lane.timed.pending--) {
    const struct fikit_move_clock *clock = &lane.timed.clock[lane.timed.oldest];
    if (REAL(cuEventQuery)(clock->end) != CUDA_SUCCESS)
      return;
    float ms = 0;
    if (REAL(cuEventElapsedTime)(&ms, clock->begin, clock->end) == CUDA_SUCCESS && ms > 0) {
      const double seen = (double)ms * 1e6 / (double)clock->bytes;
      struct fikit_rate *rate = &lane.timed.rate[clock->kind];
      rate->moves += rate->moves < ALL_NEW;
      if (rate->moves > UNCOUNTED)
        rate->ns_per_byte += (seen - rate->ns_per_byte) / (rate->moves - UNCOUNTED < AVERAGED ? rate->moves - UNCOUNTED : AVERAGED);
    }
    lane.timed.oldest = (lane.timed.oldest + 1) % CLOCKS;
  }
}

/* 0: too few moves were timed. */
static double ns_per_byte(bool in) {
  const double least_ns = 1e-3; /* no link moves a byte sooner, whatever the driver's clock says */
  const struct fikit_rate *rate = &lane.timed.rate[in ? FIKIT_RATE_IN : FIKIT_RATE_OUT], *first = &lane.timed.rate[FIKIT_RATE_FIRST_OUT];
  if (!in && rate->moves < UNCOUNTED + AVERAGED && first->moves == ALL_NEW)
    rate = first;
  if (rate->moves < UNCOUNTED + AVERAGED)
    return 0;
  return rate->ns_per_byte > least_ns ? rate->ns_per_byte : least_ns;
}

uint64_t fikit_lane_bytes_per_s(bool in) {
  const double ns = ns_per_byte(in);
  return ns > 0 ? (uint64_t)(1e9 / ns) : 0;
}

uint64_t fikit_lane_both_per_s(void) {
  const double in_ns = ns_per_byte(true), out_ns = ns_per_byte(false);
  return in_ns > 0 && out_ns > 0 ? (uint64_t)(2e9 / (in_ns + out_ns)) : 0;
}

enum fikit_lane_answer fikit_lane_move(const struct fikit_piece *piece, CUdevice device, uint64_t for_launch, enum fikit_lane_rate kind) {
  const unsigned check = next_check();
  const int mode = fikit_capture_relax();
  read_clocks();
  struct fikit_move_clock *clock = begin_timing(kind);
  const bool moves = fikit_prefetch(piece, device, lane.stream) == CUDA_SUCCESS;
  bool done = moves;
  if (clock && done)
    end_timing(clock, piece->bytes, kind);
  if (done && lane.moves % BETWEEN_CHECKS == 0)
    done = lane.check[check].pending = REAL(cuEventRecord)(lane.check[check].event, lane.stream) == CUDA_SUCCESS;
  lane.moves++;
  lane.in_order |= piece->in_order;
  done = done && ((!for_launch && !piece->in_order) || record_awaited(for_launch));
  fikit_capture_restore(mode);
  return done ? FIKIT_LANE_MOVES : moves ? FIKIT_LANE_ALONE : FIKIT_LANE_REFUSED;
}

struct fikit_awaited *fikit_lane_awaited(const struct fikit_stream *entry, uint64_t seq) {
  struct fikit_awaited *newest = NULL;
  for (struct fikit_awaited *each = lane.awaited; each < lane.awaited + lane.used; each++) {
    if (each->launch == 0 || each->launch > seq)
      continue;
    each->launch = 0;
    if (!newest || each->number > newest->number)
      newest = each;
  }
  if (!newest || lane.follows_several || !fikit_stream_is(&lane.follows, entry))
    return NULL;
  newest->held = true;
  return newest;
}

uint64_t fikit_lane_newest(void) {
  return lane.moves;
}

/* The first of the events behind this move. */
static struct fikit_awaited *first_awaited_behind(uint64_t move) {
  struct fikit_awaited *first = NULL;
  for (struct fikit_awaited *each = lane.awaited; each < lane.awaited + lane.used; each++)
    if (each->number >= move && (!first || each->number < first->number))
      first = each;
  return first;
}

/* Asks the driver; an error counts as not completed. */
static bool has_completed(const struct fikit_awaited *awaited) {
  if (fikit_capture_anywhere())
    return false;
  const int mode = fikit_capture_relax();
  const CUresult result = REAL(cuEventQuery)(awaited->event);
  fikit_capture_restore(mode);
  if (result == CUDA_SUCCESS && awaited->number > lane.completed)
    lane.completed = awaited->number;
  return result == CUDA_SUCCESS;
}

enum fikit_lane_free fikit_lane_free(uint64_t move, const struct fikit_stream *entry, struct fikit_awaited **awaited) {
  const bool follows = entry && !lane.follows_several && fikit_stream_is(&lane.follows, entry);
  if (move <= lane.completed || (follows && move <= lane.awaited_up_to))
    return FIKIT_FREE_NOW;
  struct fikit_awaited *found = first_awaited_behind(move);
  if (found && has_completed(found))
    return FIKIT_FREE_NOW;
  if (!found && follows && record_awaited(0))
    found = first_awaited_behind(move);
  if (!found || !follows)
    return FIKIT_FREE_IN_LANE;
  found->held = true;
  *awaited = found;
  return FIKIT_FREE_WAITS;
}

bool fikit_lane_follow_mark(const struct fikit_mark *mark) {
  lane.follows_several = true;
  return fikit_mark_awaited(mark, lane.stream);
}

bool fikit_lane_wait(CUstream stream, const struct fikit_awaited *awaited) {
  return REAL(cuStreamWaitEvent)(stream, awaited->event, 0) == CUDA_SUCCESS;
}

void fikit_lane_give_back(struct fikit_awaited *awaited, const struct fikit_stream *entry) {
  if (entry && awaited->number > lane.awaited_up_to && fikit_stream_is(&lane.follows, entry))
    lane.awaited_up_to = awaited->number;
  awaited->held = false;
}

uint64_t fikit_lane_next(void) {
  uint64_t next = FIKIT_LOOK_NEVER;
  for (const struct fikit_awaited *each = lane.awaited; each < lane.awaited + lane.used; each++)
    if (each->launch != 0 && each->launch < next)
      next = each->launch;
  return next;
}

void fikit_lane_drop_waits(void) {
  for (struct fikit_awaited *each = lane.awaited; each < lane.awaited + lane.used; each++)
    each->launch = 0;
}

CUstream fikit_lane_stream(void) {
  return lane.stream;
}

bool fikit_lane_context_gone(CUcontext context) {
  if (!lane.context || lane.context != context)
    return false;
  const uint64_t moves = lane.moves;
  memset(&lane, 0, sizeof lane);
  lane.moves = lane.completed = moves;
  return true;
}

void fikit_lane_forget_all(void) {
  memset(&lane, 0, sizeof lane);
  atomic_store(&was_open, false);
}
