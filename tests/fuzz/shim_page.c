/*
 * What the shim reads from its pages at a closed gate and for an allocation: gate, grants, leases, times, the job's limit and
 * shares. Whatever fikitd (or a broken one) writes there while a launch waits, the launch goes on once the gate is open or
 * its time is over, nothing is read out of bounds, and no allocation is refused within the limit.
 *
 * A libFuzzer target (`make fuzz`), or a program of its own (alone.c). The driver and fikitd are not there.
 */
#include "base/clock.h"
#include "gate/gate.h"
#include "base/lock.h"
#include "gate/marker.h"
#include "memory/late_free.h"
#include "memory/memory.h"
#include "base/monitor.h"
#include "gate/gpu_marker.h"
#include "base/log.h"
#include "../support/no_moves.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool fikit_markers_poll(struct fikit_device *device) {
  (void)device;
  return false;
}
void fikit_marker_end_run(struct fikit_device *device, struct fikit_stream *entry, CUstream stream) {
  (void)device, (void)entry, (void)stream;
}
void fikit_monitor_look(struct fikit_device *device, int64_t interval_ns) {
  (void)device, (void)interval_ns;
}
void fikit_doorbell(struct fikit_device *device) {
  (void)device;
}
bool fikit_late_frees_wait(int64_t *began_ns) {
  (void)began_ns;
  return false;
}
void fikit_log(const char *format, ...) {
  (void)format;
}

static struct fikit_page page;
static struct fikit_memory memory;
static struct fikit_device device;
FIKIT_LOCK_IN_CHILD(reserving, &device.reserving);

/* The input: words that fikitd writes, one state after the other while the launch waits. */
struct state {
  uint8_t gate;       /* 0: open */
  uint8_t grant;      /* 1: what is waited for, 2: another request */
  int16_t lease_us;   /* from now on; negative: over */
  uint16_t slot;      /* of the launch */
  int16_t run;        /* launches that may follow; negative: fewer than there were */
  uint32_t spin_ns;
  uint64_t limit, held, wanted;
  uint32_t shares;
};

static void show(const struct state *state) {
  page.spin_ns = state->spin_ns % 100000;
  atomic_store(&page.run_until, state->run ? atomic_load(&page.launch_seq) + (uint64_t)state->run : 0);
  atomic_store(&page.gate_until_ns, fikit_now_ns() + state->lease_us * INT64_C(1000));
  if (state->grant == 1)
    atomic_store(&page.grant_seq, atomic_load(&page.request_seq));
  else if (state->grant == 2)
    atomic_store(&page.grant_seq, atomic_load(&page.request_seq) + 77);
  atomic_store(&page.gate, state->gate ? state->gate : FIKIT_GATE_OPEN);
  fikit_gate_wake(&device);
}

static const struct state *states;
static size_t count;

/* fikitd; at the end it opens the gate. */
static void *play(void *argument) {
  static const struct state open_gate;
  for (size_t i = 0; i < count; i++)
    show(&states[i]);
  show(&open_gate);
  return argument;
}

/* Which launches it is asked to mark: a question only, whatever the bits are. */
static unsigned wanted_marks(const struct state *state) {
  unsigned wanted = 0;
  atomic_store(&page.marker_interval, state->shares);
  atomic_store(&page.known_slots[state->slot % (FIKIT_SLOTS / 32)], (uint32_t)state->held);
  for (uint32_t slot = 0; slot < FIKIT_SLOTS; slot++)
    wanted += fikit_gpu_marker_wanted(&device, slot, state->wanted);
  return wanted;
}

static void allocate(const struct state *state) {
  memset(&memory, 0, sizeof memory);
  memory.limit_bytes = state->limit;
  atomic_store(&memory.shares, state->shares);
  device.share = &memory.share[state->slot % FIKIT_MEMORY_SHARES];
  atomic_store(&memory.share[(state->slot + 1) % FIKIT_MEMORY_SHARES].held_bytes, state->held);
  const uint64_t bytes = state->wanted % (UINT64_C(1) << 40);
  const bool got = fikit_memory_reserve(&device, bytes);
  if (!got && (state->limit == 0 || (state->held == 0 && bytes <= state->limit)))
    abort();
  if (got)
    fikit_memory_return(&device, bytes);
  if (atomic_load(&device.share->held_bytes) != 0 || atomic_load(&device.share->wanted_bytes) != 0)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct state all[16];
  pthread_t daemon;
  count = size / sizeof *states < 16 ? size / sizeof *states : 16;
  if (!count)
    return 0;
  memcpy(all, data, count * sizeof *all);
  states = all;
  device.page = &page;
  device.memory = &memory;
  pthread_mutex_init(&device.reserving, NULL);
  uint64_t waits = atomic_load(&page.wait_count), expired = atomic_load(&page.expired_count);
  atomic_store(&page.gate, FIKIT_GATE_CLOSED);
  atomic_store(&page.gate_until_ns, fikit_now_ns() + 1000000);
  pthread_create(&daemon, NULL, play, NULL);
  struct fikit_pass pass = all[0].slot & 1 ? fikit_gate_wait(&device, NULL, NULL, all[0].slot % FIKIT_SLOTS)
                                           : fikit_gate_wait_to_copy(&device, FIKIT_COPY_IN, all[0].held);
  pthread_join(daemon, NULL);
  if (pass.kind != FIKIT_ENTRY_LAUNCH && pass.kind != FIKIT_ENTRY_GRANTED && pass.kind != FIKIT_ENTRY_EXPIRED)
    abort();
  if (pass.kind == FIKIT_ENTRY_GRANTED) /* as the launch path asks: is it the last of its run? */
    atomic_fetch_add(&page.launch_seq, !fikit_run_over(&page, atomic_load(&page.launch_seq)));
  if (atomic_load(&page.expired_count) - expired != (pass.kind == FIKIT_ENTRY_EXPIRED) ||
      atomic_load(&page.wait_count) - waits > 1 || atomic_load(&page.waiting) != 0)
    abort();
  for (size_t i = 0; i < count; i++) {
    allocate(&all[i]);
    if (wanted_marks(&all[i]) && all[i].shares == 0)
      abort();
  }
  return 0;
}
