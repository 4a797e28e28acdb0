/*
 * The job's memory page (fikit_protocol.h): every process adds up what all of them hold and want; nobody waits for
 * anybody, except for the few instructions in which two requests that do not fit together see each other.
 */
#include "memory/memory.h"
#include "memory/late_free.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/monitor.h"
#include "base/nap.h"
#include "base/log.h"

#include <sched.h>

/* After so long the request of a process that was stopped in the middle of it counts as granted. One that only lost its core goes on sooner. */
enum { PATIENCE_NS = 1000000000 };
/* Most conflicts are over by then; after that a thread sleeps between two looks. */
enum { SOON_NS = 1000000 };

static uint32_t shares_of(const struct fikit_memory *memory) {
  uint32_t shares = atomic_load(&memory->shares); /* in one order with wanted_bytes: of two requests one sees the other */
  return shares < FIKIT_MEMORY_SHARES ? shares : FIKIT_MEMORY_SHARES;
}

uint64_t fikit_memory_host_bytes(const struct fikit_device *device) {
  return device->memory->limit_bytes ? device->memory->host_bytes : 0;
}

static uint64_t held_by_all(const struct fikit_memory *memory) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < shares_of(memory); i++)
    sum += atomic_load_explicit(&memory->share[i].held_bytes, memory_order_relaxed);
  return sum;
}

static uint64_t sum(uint64_t a, uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Without fikitd nobody empties the shares of processes that end: then there is no limit. */
static uint64_t limit_of(const struct fikit_device *device) {
  if (!device || atomic_load_explicit(&device->gone, memory_order_relaxed))
    return 0;
  return sum(device->memory->limit_bytes, fikit_memory_host_bytes(device));
}

static void raise_to(_Atomic uint64_t *peak, uint64_t bytes) {
  uint64_t known = atomic_load_explicit(peak, memory_order_relaxed);
  while (known < bytes && !atomic_compare_exchange_weak(peak, &known, bytes))
    ;
}

enum kind { PLAIN, MOVABLE };

static void hold(struct fikit_device *device, uint64_t bytes, enum kind kind) {
  if (kind == PLAIN && fikit_memory_host_bytes(device))
    atomic_fetch_add(&device->share->plain_bytes, bytes);
  atomic_fetch_add(&device->share->held_bytes, bytes);
}

void fikit_memory_kept(struct fikit_device *device) {
  if (!device)
    return;
  raise_to(&device->share->peak_bytes, atomic_load(&device->share->held_bytes));
  raise_to(&device->memory->peak_bytes, held_by_all(device->memory));
}

/* What the job's processes hold, and of that what cannot leave the GPU. */
struct seen {
  uint64_t held, plain;
};

static void refuse(struct fikit_device *device, uint64_t bytes, struct seen seen) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  const double mib = 1 << 20;
  const uint64_t host = fikit_memory_host_bytes(device);
  atomic_fetch_add_explicit(&device->memory->refused, 1, memory_order_relaxed);
  if (atomic_flag_test_and_set(&said))
    return;
  if (host)
    fikit_log("out of GPU memory: this job's limit is %.0f MiB on the GPU (--fikit-mem) and %.0f MiB beside it (--fikit-mem-host), "
              "its processes hold %.1f MiB, %.1f MiB of which cannot leave the GPU, and %.1f MiB more were asked for; ask for a higher "
              "--fikit-mem%s.",
              (double)device->memory->limit_bytes / mib, (double)host / mib, (double)seen.held / mib, (double)seen.plain / mib,
              (double)bytes / mib, seen.plain + bytes > device->memory->limit_bytes ? "" : " or --fikit-mem-host");
  else
    fikit_log("out of GPU memory: this job's limit is %.0f MiB (--fikit-mem), its processes hold %.1f MiB, and %.1f MiB "
              "more were asked for; ask for a higher --fikit-mem.",
              (double)device->memory->limit_bytes / mib, (double)seen.held / mib, (double)bytes / mib);
}

enum verdict { FITS, TOO_MUCH, CONFLICT };

static enum verdict fits(uint64_t bytes, uint64_t held, uint64_t wanted_by_others, uint64_t limit) {
  if (bytes > limit || held > limit - bytes)
    return TOO_MUCH;
  return wanted_by_others > limit - bytes - held ? CONFLICT : FITS;
}

/* Everybody's wanted bytes are read before their held ones: a request that is granted in between is counted twice, never
 * missed. `yield`: a conflict is with a lower share, whose request goes first. Of others' requests nobody knows whether they
 * are for plain memory: they count as such. */
static enum verdict judge(const struct fikit_device *device, uint64_t bytes, uint64_t limit, enum kind kind, struct seen *seen,
                          bool *yield) {
  uint64_t wanted_by_others = 0;
  *seen = (struct seen){0};
  *yield = false;
  for (uint32_t i = 0; i < shares_of(device->memory); i++) {
    const struct fikit_memory_share *share = &device->memory->share[i];
    uint64_t wanted = share == device->share ? 0 : atomic_load(&share->wanted_bytes);
    wanted_by_others += wanted;
    *yield = *yield || (wanted && share < device->share);
    seen->plain += atomic_load(&share->plain_bytes);
    seen->held += atomic_load(&share->held_bytes);
  }
  const enum verdict in_all = fits(bytes, seen->held, wanted_by_others, limit);
  if (kind == MOVABLE || in_all == TOO_MUCH || !fikit_memory_host_bytes(device))
    return in_all;
  const enum verdict on_gpu = fits(bytes, seen->plain, wanted_by_others, device->memory->limit_bytes);
  return on_gpu == FITS ? in_all : on_gpu;
}

/* Without fikitd there is no limit. */
static bool without_fikitd(struct fikit_device *device) {
  fikit_monitor_look(device, 0);
  return !limit_of(device);
}

static void look_again(int64_t since_ns) {
  if (since_ns < SOON_NS)
    sched_yield();
  else
    fikit_nap(SOON_NS / 4);
}

/* Under `reserving`. False: it does not fit beside what was `seen`. */
static bool reserve(struct fikit_device *device, uint64_t bytes, uint64_t limit, enum kind kind, struct seen *seen) {
  int64_t began_ns = 0;
  bool yield, too_much_before = false;
  for (;;) {
    atomic_store(&device->share->wanted_bytes, bytes);
    enum verdict verdict = judge(device, bytes, limit, kind, seen, &yield);
    /* Looked at twice: what one process freed and another one took meanwhile may have been counted twice. */
    if (verdict == FITS || (verdict == TOO_MUCH && too_much_before)) {
      if (verdict == TOO_MUCH && without_fikitd(device))
        verdict = FITS;
      if (verdict == FITS)
        hold(device, bytes, kind);
      atomic_store(&device->share->wanted_bytes, 0);
      return verdict == FITS;
    }
    too_much_before = verdict == TOO_MUCH;
    if (too_much_before)
      continue;
    if (yield)
      atomic_store(&device->share->wanted_bytes, 0);
    int64_t now_ns = fikit_now_ns();
    if (!began_ns)
      began_ns = now_ns;
    if (now_ns - began_ns >= PATIENCE_NS) {
      atomic_store(&device->share->wanted_bytes, 0);
      return false;
    }
    look_again(now_ns - began_ns);
  }
}

/* The limit of the sum is reached, in which memory that is freed late still counts. */
static bool fits_without_late_frees(uint64_t bytes, uint64_t limit, const struct seen *seen) {
  return bytes <= limit && seen->held > limit - bytes;
}

static bool reserve_unless_full(struct fikit_device *device, uint64_t bytes, enum kind kind) {
  if (!device)
    return true;
  uint64_t limit = limit_of(device);
  if (!limit) {
    hold(device, bytes, kind);
    return true;
  }
  struct seen seen;
  int64_t since_ns = 0;
  bool fits;
  do {
    if (!fikit_lock_around(&device->reserving)) { /* a signal handler that interrupted a request */
      hold(device, bytes, kind);
      return true;
    }
    fits = reserve(device, bytes, limit, kind, &seen);
    fikit_unlock_around(&device->reserving);
  } while (!fits && fits_without_late_frees(bytes, limit, &seen) && fikit_late_frees_wait(&since_ns));
  if (!fits)
    refuse(device, bytes, seen);
  return fits;
}

bool fikit_memory_reserve(struct fikit_device *device, uint64_t bytes) {
  return reserve_unless_full(device, bytes, PLAIN);
}

bool fikit_memory_reserve_movable(struct fikit_device *device, uint64_t bytes) {
  return reserve_unless_full(device, bytes, MOVABLE);
}

/* Never below 0: fikitd empties the share of a process that closed its connection, which may still free memory. */
static void take_off(_Atomic uint64_t *counter, uint64_t bytes) {
  uint64_t held = atomic_load(counter);
  while (!atomic_compare_exchange_weak(counter, &held, held > bytes ? held - bytes : 0))
    ;
}

void fikit_memory_return_movable(struct fikit_device *device, uint64_t bytes) {
  if (device)
    take_off(&device->share->held_bytes, bytes);
}

void fikit_memory_return(struct fikit_device *device, uint64_t bytes) {
  fikit_memory_return_movable(device, bytes);
  if (device && fikit_memory_host_bytes(device))
    take_off(&device->share->plain_bytes, bytes);
}

bool fikit_memory_narrow(const struct fikit_device *device, uint64_t *free_bytes, uint64_t *total_bytes) {
  uint64_t limit = limit_of(device);
  if (!limit)
    return false;
  uint64_t held = held_by_all(device->memory), left = limit > held ? limit - held : 0;
  const bool beyond_gpu = fikit_memory_host_bytes(device) != 0; /* then what the GPU has free says nothing */
  if (total_bytes && (beyond_gpu || *total_bytes > limit))
    *total_bytes = limit;
  if (free_bytes && (beyond_gpu || *free_bytes > left))
    *free_bytes = left;
  return true;
}
