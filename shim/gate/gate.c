/*
 * One thread at a time asks for this process (`requester`); the others queue on `turn` and look at the gate whenever it
 * changes hands. The requester spins a little, then sleeps on the daemon's futex word. Every wait ends at
 * gate_until_ns: a closed gate that nobody renews is an open one. One further ahead than FIKIT_MOST_LEASE_NS counts as past.
 */
#include "gate/gate.h"
#include "base/clock.h"
#include "gate/marker.h"
#include "gate/move.h"
#include "base/monitor.h"
#include "base/page.h"
#include "gate/gpu_marker.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* While a completion marker is out, look at it this often: the daemon grants the next launch on its report. */
enum { MARKER_POLL_NS = 20000, NAP_NS = 50000 };

/* What stands at the gate: a launch of this slot, or a copy of so many bytes. */
struct request {
  struct fikit_stream *entry; /* of a launch; NULL: a copy */
  CUstream stream;
  uint32_t slot;
  enum fikit_copy copy; /* NONE: a launch */
  uint64_t bytes;
};

static __thread bool waiting_here;

static bool expired(const struct fikit_page *page, int64_t now_ns) {
  const int64_t until_ns = atomic_load_explicit(&page->gate_until_ns, memory_order_acquire);
  return until_ns <= now_ns || until_ns - now_ns > FIKIT_MOST_LEASE_NS;
}

static bool covered(const struct fikit_page *page, const struct request *request) {
  return fikit_request_covered(page, request->copy, request->slot);
}

static struct fikit_pass newest_grant(const struct fikit_page *page) {
  return (struct fikit_pass){FIKIT_ENTRY_GRANTED, atomic_load_explicit(&page->grant_seq, memory_order_relaxed)};
}

/* Sleep until *word is no longer `seen`, someone wakes us, or the moment `until_ns`. */
static void sleep_on(_Atomic uint32_t *word, uint32_t seen, int64_t until_ns, int flags) {
  struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
  int saved = errno;
  long result = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | flags, seen, &until, NULL, FUTEX_BITSET_MATCH_ANY);
  if (result != 0 && errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT) { /* a sandbox without futex */
    struct timespec a_little = {0, NAP_NS};
    syscall(SYS_nanosleep, &a_little, NULL);
  }
  errno = saved;
}

static void wake_all(_Atomic uint32_t *word, int flags) {
  atomic_fetch_add_explicit(word, 1, memory_order_seq_cst);
  syscall(SYS_futex, word, FUTEX_WAKE | flags, INT_MAX, NULL, NULL, 0);
}

void fikit_gate_wake(struct fikit_device *device) {
  wake_all(&device->page->wake, 0);
  wake_all(&device->turn, FUTEX_PRIVATE_FLAG);
}

/* Become the requester: true. False: there is no need to ask any more, `pass` says why. */
static bool take_turn(struct fikit_device *device, const struct request *request, struct fikit_pass *pass) {
  struct fikit_page *page = device->page;
  for (;;) {
    uint32_t seen = atomic_load_explicit(&device->turn, memory_order_seq_cst);
    uint32_t nobody = 0;
    if (fikit_gate_open(page))
      return false;
    if (covered(page, request)) {
      *pass = newest_grant(page);
      return false;
    }
    if (expired(page, fikit_now_ns())) {
      pass->kind = FIKIT_ENTRY_EXPIRED;
      return false;
    }
    if (atomic_compare_exchange_strong(&device->requester, &nobody, 1))
      return true;
    sleep_on(&device->turn, seen, atomic_load(&page->gate_until_ns), FUTEX_PRIVATE_FLAG);
  }
}

static void give_turn(struct fikit_device *device) {
  atomic_store_explicit(&device->requester, 0, memory_order_seq_cst);
  wake_all(&device->turn, FUTEX_PRIVATE_FLAG);
}

static uint32_t post_request(struct fikit_device *device, const struct request *request, int64_t now_ns) {
  uint32_t seq = fikit_page_post(device->page, request->slot, request->copy, request->bytes, now_ns);
  fikit_doorbell(device);
  return seq;
}

/* Until there is an answer; where `mover` is not NULL also until there is memory to be moved: kind 0. */
static struct fikit_pass wait_for_answer(struct fikit_device *device, const struct request *request, uint32_t seq,
                                         int64_t start_ns, const struct fikit_mover *mover) {
  struct fikit_page *page = device->page;
  for (;;) {
    uint32_t seen = atomic_load_explicit(&page->wake, memory_order_seq_cst);
    switch (fikit_gate_says(page, seq, request->copy, request->slot)) {
    case FIKIT_SAYS_GRANTED:
      return (struct fikit_pass){FIKIT_ENTRY_GRANTED, seq};
    case FIKIT_SAYS_OPEN:
      return (struct fikit_pass){FIKIT_ENTRY_LAUNCH, 0};
    case FIKIT_SAYS_COVERED:
      return newest_grant(page);
    case FIKIT_SAYS_WAIT:
      break;
    }
    int64_t now_ns = fikit_now_ns();
    if (expired(page, now_ns))
      return (struct fikit_pass){FIKIT_ENTRY_EXPIRED, 0};
    if (mover && fikit_move_due(page, mover))
      return (struct fikit_pass){0};
    bool marker_out = fikit_markers_poll(device);
    if (now_ns - start_ns < page->spin_ns) {
      sched_yield(); /* the dispatcher that was rung for may have been put onto this very core */
      continue;
    }
    fikit_monitor_look(device, FIKIT_LOOK_WAITING_NS);
    int64_t until_ns = atomic_load(&page->gate_until_ns);
    if (until_ns > now_ns + FIKIT_LOOK_WAITING_NS)
      until_ns = now_ns + FIKIT_LOOK_WAITING_NS;
    if (marker_out && now_ns + MARKER_POLL_NS < until_ns)
      until_ns = now_ns + MARKER_POLL_NS;
    sleep_on(&page->wake, seen, until_ns, 0);
  }
}

/* The request of a thread that moves memory while it waits. The page has room for one request, so this one is withdrawn while a piece of a move asks. */
struct standing {
  const struct request *request;
  int64_t start_ns;
  uint32_t seq; /* 0: it is withdrawn */
};

static void stand(struct fikit_device *device, struct standing *standing) {
  if (standing->seq == 0)
    standing->seq = post_request(device, standing->request, standing->start_ns);
}

static void step_aside(struct fikit_device *device, struct standing *standing) {
  fikit_page_withdraw(device->page);
  standing->seq = 0;
}

/* The program's work may go on, and moving ends. */
static bool may_go(const struct fikit_device *device, const struct standing *standing) {
  const struct fikit_page *page = device->page;
  if (expired(page, fikit_now_ns()) || fikit_gate_open(page))
    return true;
  return standing->seq && fikit_gate_says(page, standing->seq, standing->request->copy, standing->request->slot) != FIKIT_SAYS_WAIT;
}

/* A piece of a move is a copy: it asks where copies ask. `granted`: number of its request; 0: it did not have to ask. False: nothing was granted. */
static bool may_move(struct fikit_device *device, const struct fikit_move *move, struct standing *standing, uint32_t *granted) {
  *granted = 0;
  if (!fikit_copy_asks(device->page, move->copy, move->bytes))
    return true;
  const struct request copy = {.copy = move->copy, .bytes = move->bytes};
  const int64_t now_ns = fikit_now_ns();
  step_aside(device, standing);
  const struct fikit_pass pass = wait_for_answer(device, &copy, post_request(device, &copy, now_ns), now_ns, NULL);
  fikit_page_withdraw(device->page);
  if (pass.kind == FIKIT_ENTRY_GRANTED)
    *granted = pass.request_seq;
  return pass.kind == FIKIT_ENTRY_GRANTED;
}

static void move_memory(struct fikit_device *device, struct fikit_mover *mover, struct standing *standing) {
  bool late = false, going_on = true;
  fikit_move_begin(device, mover);
  while (going_on) {
    const struct fikit_move move = fikit_move_next(device, mover);
    uint32_t granted = 0;
    if (move.copy == FIKIT_COPY_NONE)
      break;
    late = may_go(device, standing) || !may_move(device, &move, standing, &granted);
    going_on = !late && fikit_move_make(device, mover);
    if (granted)
      fikit_marker_skip(device, 0, granted); /* fikit_move_make has waited for the move */
  }
  fikit_move_end(device, mover, late);
}

/* As the requester. */
static struct fikit_pass ask(struct fikit_device *device, const struct request *request, int64_t start_ns) {
  struct fikit_mover mover = {0};
  struct standing standing = {request, start_ns, 0};
  struct fikit_pass pass;
  do {
    stand(device, &standing);
    if (fikit_move_due(device->page, &mover))
      move_memory(device, &mover, &standing);
    stand(device, &standing);
    pass = wait_for_answer(device, request, standing.seq, start_ns, &mover);
  } while (!pass.kind);
  fikit_page_withdraw(device->page);
  return pass;
}

static void count_wait(struct fikit_page *page, int64_t waited_ns) {
  unsigned bucket = waited_ns > 1 ? 63 - (unsigned)__builtin_clzll((unsigned long long)waited_ns) : 0;
  if (bucket >= FIKIT_WAIT_BUCKETS)
    bucket = FIKIT_WAIT_BUCKETS - 1;
  atomic_fetch_add_explicit(&page->wait_histogram[bucket], 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&page->wait_total_ns, (uint64_t)waited_ns, memory_order_relaxed);
  atomic_fetch_add_explicit(&page->wait_count, 1, memory_order_release);
}

static struct fikit_pass wait_at_gate(struct fikit_device *device, const struct request *request) {
  struct fikit_page *page = device->page;
  struct fikit_pass pass = {FIKIT_ENTRY_LAUNCH, 0};
  if (covered(page, request))
    return newest_grant(page);
  int64_t start_ns = fikit_now_ns();
  if (expired(page, start_ns) || waiting_here) { /* a signal handler's launch must not wait for its own thread */
    pass.kind = fikit_gate_open(page) ? FIKIT_ENTRY_LAUNCH : FIKIT_ENTRY_EXPIRED;
    fikit_monitor_look(device, FIKIT_LOOK_WAITING_NS); /* nobody renewed the lease */
  } else {
    int cancelability; /* a cancelled requester would leave the others waiting */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelability);
    waiting_here = true;
    if (take_turn(device, request, &pass)) {
      if (request->entry)
        fikit_marker_end_run(device, request->entry, request->stream);
      pass = ask(device, request, start_ns);
      give_turn(device);
    }
    waiting_here = false;
    pthread_setcancelstate(cancelability, &cancelability);
    count_wait(page, fikit_now_ns() - start_ns);
  }
  if (pass.kind == FIKIT_ENTRY_EXPIRED)
    atomic_fetch_add_explicit(&page->expired_count, 1, memory_order_relaxed);
  return pass;
}

struct fikit_pass fikit_gate_wait(struct fikit_device *device, struct fikit_stream *entry, CUstream stream, uint32_t slot) {
  return wait_at_gate(device, &(struct request){.entry = entry, .stream = stream, .slot = slot});
}

struct fikit_pass fikit_gate_wait_to_copy(struct fikit_device *device, enum fikit_copy copy, uint64_t bytes) {
  return wait_at_gate(device, &(struct request){.copy = copy, .bytes = bytes});
}
