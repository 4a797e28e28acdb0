/*
 * No launch may wait for a move that waits for a launch which itself waits for that launch: a program may well have a kernel that spins until
 * a later one in another stream has run. So a launch waits only if all that the lane has been made to wait for, since it was last known to be
 * empty, was in the launch's own stream: then the launch comes behind all of that anyway. Two streams that look alike are not one: a stream
 * may be destroyed and its handle given out anew (fikit_stream_epoch), and each thread has a per-thread default stream of its own.
 *
 * The legacy default stream waits for all blocking streams and they for it, so an event recorded there holds up what is launched into others
 * behind it. Recorded at once behind a launch that did just the same it adds nothing, unless another thread has launched in between: so the
 * lane follows the legacy stream only while all other streams are known to have completed.
 */
#include "gate/lane.h"
#include "base/look.h"
#include "base/symbols.h"
#include "gate/prefetch.h"
#include "streams/capture.h"

#include <string.h>

enum {
  AWAITED = 512,        /* moves to the GPU under way; for more of them no launch waits */
  BETWEEN_CHECKS = 128, /* moves; the device is at most twice as many behind: a driver makes a thread wait whose stream is full */
  CHECKS = 2,
  KEPT = 128,           /* moves: events behind the newest ones are kept for frees, while there is room */
  FIRST = 4,            /* timed moves that do not count: they meet page faults */
  SMOOTHED = 8,         /* timed moves over which a rate is averaged; there is no rate before so many */
  ALL_NEW = 64,         /* timed first moves out of a program, before they stand for moves out of memory that was out before: it takes all of its memory anew */
  CLOCKS = 4,           /* moves that are timed at once, where the host is far ahead of them */
  APART = 16,           /* moves from the beginning of one of these to that of the next that tells the same */
};

/* The time of a move by the device's clock. */
struct fikit_move_clock {
  CUevent begin, end;
  uint64_t bytes; /* of its move */
  enum fikit_lane_rate tells;
};

struct fikit_rate {
  double ns_per_byte;
  unsigned moves; /* timed so far, ALL_NEW at most */
};

struct fikit_awaited {
  CUevent event;     /* behind the move; NULL: not created */
  uint64_t launch;   /* number of the launch that waits for the move; 0: none does */
  uint64_t number;   /* of the move, in the order of the lane */
  bool held;         /* between fikit_lane_awaited and fikit_lane_give_back: not to be used for another move */
};

static struct {
  CUcontext context;
  CUstream stream;
  CUevent behind;                     /* recorded behind the launch that the next moves wait for */
  struct {
    CUevent event; /* behind every BETWEEN_CHECKSth move */
    bool out;      /* recorded, and not known to be complete */
  } check[CHECKS];
  uint64_t moves;                     /* that the driver was given so far */
  uint64_t over;                      /* number of the newest move that is known to be complete */
  uint64_t awaited_up_to;             /* number of the newest move for which a launch into `follows` has waited */
  struct fikit_stream_id follows;     /* the only stream that the lane may still wait for */
  bool several;                       /* the lane may still wait for launches of other streams too: no launch waits for it */
  bool in_order;                      /* memory in stream order was moved: its free looks for an event behind the move */
  struct {
    struct fikit_move_clock clock[CLOCKS]; /* used in turn */
    unsigned oldest, out;                  /* the clock of the oldest move that is being timed, and how many are */
    uint64_t newest[FIKIT_NO_RATE];        /* by what it tells: number of the newest move that was timed */
    struct fikit_rate rate[FIKIT_NO_RATE]; /* by enum fikit_lane_rate */
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

/* What was made of a lane is of a context that may end, and the next try may be in another one. */
static void undo(void) {
  CUevent *const events[] = {&lane.behind, &lane.check[0].event, &lane.check[1].event};
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
  bool made = lane.stream && event_made(&lane.behind);
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
    lane.over = lane.moves;
  return result == CUDA_SUCCESS;
}

/* The check that the next move comes under; only every BETWEEN_CHECKSth move looks at one. */
static unsigned next_check(void) {
  return (unsigned)(lane.moves / BETWEEN_CHECKS % CHECKS);
}

bool fikit_lane_has_room(bool *failed) {
  const unsigned i = next_check();
  if (lane.moves % BETWEEN_CHECKS != 0 || !lane.check[i].out)
    return true;
  const int mode = fikit_capture_relax();
  const CUresult result = REAL(cuEventQuery)(lane.check[i].event);
  fikit_capture_restore(mode);
  *failed |= result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
  lane.check[i].out = result != CUDA_SUCCESS;
  return !lane.check[i].out;
}

static bool holds_up_others(const struct fikit_stream *entry) {
  return is_legacy(entry) && !fikit_stream_covers(entry);
}

bool fikit_lane_follows(const struct fikit_stream *entry) {
  return !lane.several && fikit_stream_is(&lane.follows, entry) && !holds_up_others(entry);
}

bool fikit_lane_may_follow(struct fikit_stream *entry, CUcontext context, bool *failed) {
  if (lane.context != context || atomic_load_explicit(&entry->context, memory_order_relaxed) != context || !fikit_stream_is_one(entry) ||
      holds_up_others(entry))
    return false;
  if (fikit_stream_is(&lane.follows, entry) && !lane.several)
    return true;
  if (!lane.follows.entry || is_empty(failed)) {
    lane.follows = fikit_stream_id(entry);
    lane.several = false;
    lane.awaited_up_to = 0;
  } else {
    lane.several = true;
  }
  return !*failed;
}

bool fikit_lane_record(CUstream stream) {
  return REAL(cuEventRecord)(lane.behind, stream) == CUDA_SUCCESS;
}

bool fikit_lane_follow(void) {
  return REAL(cuStreamWaitEvent)(lane.stream, lane.behind, 0) == CUDA_SUCCESS;
}

/* The oldest; where frees may look for events, those of the newest moves are kept while there is room. */
static struct fikit_awaited *free_awaited(void) {
  struct fikit_awaited *oldest = NULL;
  for (struct fikit_awaited *each = lane.awaited; each < lane.awaited + lane.used; each++)
    if (each->launch == 0 && !each->held && (!oldest || each->number < oldest->number))
      oldest = each;
  if (oldest && (!lane.in_order || lane.used == AWAITED || lane.moves - oldest->number > KEPT))
    return oldest;
  return lane.used < AWAITED ? &lane.awaited[lane.used++] : NULL;
}

/* An event behind the newest move. The launch of this number waits for it, 0: none does; if AWAITED moves are under way it does not, and meets page faults. False: the driver refuses. */
static bool awaited_by(uint64_t launch) {
  struct fikit_awaited *awaited = free_awaited();
  if (!awaited)
    return true;
  if (!event_made(&awaited->event) || REAL(cuEventRecord)(awaited->event, lane.stream) != CUDA_SUCCESS)
    return false;
  awaited->launch = launch;
  awaited->number = lane.moves;
  return true;
}

/* A clock for the next move, begun; NULL: it is not timed. What the driver refuses here leaves a move untimed, and no more. */
static struct fikit_move_clock *timing_begins(enum fikit_lane_rate tells) {
  if (tells == FIKIT_NO_RATE || lane.timed.out == CLOCKS || (lane.timed.out != 0 && lane.moves - lane.timed.newest[tells] < APART))
    return NULL;
  struct fikit_move_clock *clock = &lane.timed.clock[(lane.timed.oldest + lane.timed.out) % CLOCKS];
  CUevent *const events[] = {&clock->begin, &clock->end};
  for (int i = 0; i < 2; i++)
    if (!*events[i] && REAL(cuEventCreate)(events[i], 0) != CUDA_SUCCESS)
      return NULL;
  return REAL(cuEventRecord)(clock->begin, lane.stream) == CUDA_SUCCESS ? clock : NULL;
}

/* Its move of so many bytes was given to the driver. */
static void timing_goes_on(struct fikit_move_clock *clock, uint64_t bytes, enum fikit_lane_rate tells) {
  if (REAL(cuEventRecord)(clock->end, lane.stream) != CUDA_SUCCESS)
    return;
  clock->bytes = bytes;
  clock->tells = tells;
  lane.timed.newest[tells] = lane.moves;
  lane.timed.out++;
}

/* Reads the clocks of moves that are over: those of the others, which are later, run on. */
static void timing_ends(void) {
  for (; lane.timed.out != 0; lane.timed.out--) {
    const struct fikit_move_clock *clock = &lane.timed.clock[lane.timed.oldest];
    if (REAL(cuEventQuery)(clock->end) != CUDA_SUCCESS)
      return;
    float ms = 0;
    if (REAL(cuEventElapsedTime)(&ms, clock->begin, clock->end) == CUDA_SUCCESS && ms > 0) {
      const double seen = (double)ms * 1e6 / (double)clock->bytes;
      struct fikit_rate *rate = &lane.timed.rate[clock->tells];
      rate->moves += rate->moves < ALL_NEW;
      if (rate->moves > FIRST)
        rate->ns_per_byte += (seen - rate->ns_per_byte) / (rate->moves - FIRST < SMOOTHED ? rate->moves - FIRST : SMOOTHED);
    }
    lane.timed.oldest = (lane.timed.oldest + 1) % CLOCKS;
  }
}

/* 0: too few moves were timed. */
static double ns_per_byte(bool in) {
  const double least_ns = 1e-3; /* no link moves a byte sooner, whatever the driver's clock says */
  const struct fikit_rate *rate = &lane.timed.rate[in ? FIKIT_RATE_IN : FIKIT_RATE_OUT], *first = &lane.timed.rate[FIKIT_RATE_FIRST_OUT];
  if (!in && rate->moves < FIRST + SMOOTHED && first->moves == ALL_NEW)
    rate = first;
  if (rate->moves < FIRST + SMOOTHED)
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

enum fikit_lane_answer fikit_lane_move(const struct fikit_piece *piece, CUdevice device, uint64_t for_launch, enum fikit_lane_rate tells) {
  const unsigned check = next_check();
  const int mode = fikit_capture_relax();
  timing_ends();
  struct fikit_move_clock *clock = timing_begins(tells);
  const bool moves = fikit_prefetch(piece, device, lane.stream) == CUDA_SUCCESS;
  bool done = moves;
  if (clock && done)
    timing_goes_on(clock, piece->bytes, tells);
  if (done && lane.moves % BETWEEN_CHECKS == 0)
    done = lane.check[check].out = REAL(cuEventRecord)(lane.check[check].event, lane.stream) == CUDA_SUCCESS;
  lane.moves++;
  lane.in_order |= piece->in_order;
  done = done && ((!for_launch && !piece->in_order) || awaited_by(for_launch));
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
  if (!newest || lane.several || !fikit_stream_is(&lane.follows, entry))
    return NULL;
  newest->held = true;
  return newest;
}

uint64_t fikit_lane_newest(void) {
  return lane.moves;
}

/* Of the events behind this move the first one. */
static struct fikit_awaited *behind(uint64_t move) {
  struct fikit_awaited *first = NULL;
  for (struct fikit_awaited *each = lane.awaited; each < lane.awaited + lane.used; each++)
    if (each->number >= move && (!first || each->number < first->number))
      first = each;
  return first;
}

/* A driver that says nothing of use is asked again when that is looked at which follows. */
static bool is_over(const struct fikit_awaited *awaited) {
  if (fikit_capture_anywhere())
    return false;
  const int mode = fikit_capture_relax();
  const CUresult result = REAL(cuEventQuery)(awaited->event);
  fikit_capture_restore(mode);
  if (result == CUDA_SUCCESS && awaited->number > lane.over)
    lane.over = awaited->number;
  return result == CUDA_SUCCESS;
}

enum fikit_lane_free fikit_lane_free(uint64_t move, const struct fikit_stream *entry, struct fikit_awaited **awaited) {
  const bool follows = entry && !lane.several && fikit_stream_is(&lane.follows, entry);
  if (move <= lane.over || (follows && move <= lane.awaited_up_to))
    return FIKIT_FREE_NOW;
  struct fikit_awaited *found = behind(move);
  if (found && is_over(found))
    return FIKIT_FREE_NOW;
  if (!found && follows && awaited_by(0))
    found = behind(move);
  if (!found || !follows)
    return FIKIT_FREE_IN_LANE;
  found->held = true;
  *awaited = found;
  return FIKIT_FREE_WAITS;
}

bool fikit_lane_follow_mark(const struct fikit_mark *mark) {
  lane.several = true;
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

void fikit_lane_let_go(void) {
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
  lane.moves = lane.over = moves;
  return true;
}

void fikit_lane_forget_all(void) {
  memset(&lane, 0, sizeof lane);
  atomic_store(&was_open, false);
}
