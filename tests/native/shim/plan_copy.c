/* What the shim makes of a plan: against a reckoning one launch at a time, and while fikitd writes another one. */
#include "base/look.h"
#include "gate/plan.h"
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fikit_plan shared;
static struct fikit_taken_plan taken;

static uint32_t any(uint32_t below) {
  return (uint32_t)rand() % below;
}

/* In fikitd's order, of which the moves have none: from the last one on a reader meets them on its way. Each says of which plan it is. Behind them are
 * `uses` first uses. */
static void write_plan(uint32_t number, uint32_t launches, uint32_t count, uint32_t uses, uint64_t first) {
  typedef uint64_t __attribute__((may_alias)) word;
  static struct fikit_plan_move moves[FIKIT_PLAN_MOVES];
  uint32_t after = 0, before = 0;
  for (uint32_t i = 0; i < count; i++) {
    after = any(3) && after + 1 < launches ? after + 1 : after;
    moves[i] = (struct fikit_plan_move){after, any(launches), number, (uint16_t)any(FIKIT_TOUCH_ALLOCATIONS), 1,
                                        any(2) ? FIKIT_COPY_IN : FIKIT_COPY_OUT};
  }
  for (uint32_t i = count; i < count + uses; i++) {
    before = any(2) && before + 1 < launches ? before + 1 : before;
    moves[i] = (struct fikit_plan_move){0, before, number, (uint16_t)any(FIKIT_TOUCH_ALLOCATIONS), 1, FIKIT_COPY_NONE};
  }
  atomic_store_explicit(&shared.number, 0, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  atomic_store_explicit(&shared.launches, launches, memory_order_relaxed);
  atomic_store_explicit(&shared.first_launch, first, memory_order_relaxed);
  atomic_store_explicit(&shared.count, count, memory_order_relaxed);
  atomic_store_explicit(&shared.first_uses, uses, memory_order_relaxed);
  for (uint32_t i = count + uses; i-- > 0;) {
    word halves[2];
    memcpy(halves, &moves[i], sizeof moves[i]);
    for (int half = 0; half < 2; half++)
      __atomic_store_n((word *)&shared.moves[i] + half, halves[half], __ATOMIC_RELAXED);
  }
  atomic_store_explicit(&shared.number, number, memory_order_release);
}

/* ---- one launch at a time */

static uint64_t place_of(uint64_t seq, uint64_t first) {
  return seq >= first ? (seq - first) % taken.launches : UINT64_MAX;
}

static void check_place(uint64_t seq, uint64_t first) {
  uint64_t launch = seq;
  uint32_t found = taken.count;
  for (; found == taken.count && taken.count; launch++)
    for (uint32_t i = 0; i < taken.count && found == taken.count; i++)
      if (taken.moves[i].after == place_of(launch, first))
        found = i;
  if (!taken.count) {
    CHECK(fikit_plan_next(&taken) == FIKIT_LOOK_NEVER);
    return;
  }
  launch--;
  CHECK(taken.next == found);
  CHECK(fikit_plan_next(&taken) == launch);
  const struct fikit_plan_move *move = &taken.moves[found];
  uint64_t needed = launch + 1;
  while (place_of(needed, first) != move->before)
    needed++;
  CHECK(fikit_plan_needed(&taken) == needed);
}

/* One move after the other, each with the launch behind which it is. */
static void check_walk(uint64_t first, uint64_t newest) {
  struct fikit_taken_plan ahead = taken;
  const uint64_t late = taken.count ? fikit_plan_late(&taken, newest) : 0;
  uint64_t last_late = 0, steps = 0;
  for (; ahead.count && fikit_plan_next(&ahead) <= newest; fikit_plan_advance(&ahead)) {
    CHECK(place_of(fikit_plan_next(&ahead), first) == ahead.moves[ahead.next].after);
    steps++;
    if (ahead.moves[ahead.next].copy == FIKIT_COPY_IN && fikit_plan_needed(&ahead) <= newest)
      last_late = steps;
  }
  CHECK(late == last_late);
}

/* Of any launch, those that say so. */
static void check_first_uses(uint64_t seq, uint64_t first) {
  const uint64_t place = (seq + taken.launches - first % taken.launches) % taken.launches;
  uint32_t found = 0;
  for (uint32_t i = taken.count; i < taken.count + taken.first_uses; i++)
    if (taken.moves[i].before == place)
      CHECK(fikit_plan_first_use(&taken, seq, found++) == &taken.moves[i]);
  CHECK(fikit_plan_first_use(&taken, seq, found) == NULL);
}

/* Launch by launch, some of them unseen: those that are seen and have first uses say so, and none is looked at in vain. */
static void check_coming(uint64_t seq) {
  for (; seq < 80; seq += any(4) ? 1 : 1 + any(20)) {
    uint64_t next = seq;
    while (taken.first_uses && !fikit_plan_first_use(&taken, next, 0))
      next++;
    const uint64_t before = fikit_plan_next_use(&taken);
    CHECK(taken.first_uses ? before <= next : before == FIKIT_LOOK_NEVER);
    CHECK(fikit_plan_comes_to(&taken, seq) == (taken.first_uses && next == seq));
    CHECK(fikit_plan_next_use(&taken) > seq);
  }
  fikit_plan_forget_uses(&taken);
  CHECK(fikit_plan_next_use(&taken) == FIKIT_LOOK_NEVER && !fikit_plan_comes_to(&taken, seq));
}

static void reckon(void) {
  for (int round = 0; round < 3000; round++) {
    const uint32_t launches = 1 + any(12);
    const uint64_t first = 1 + any(30), seq = 1 + any(60);
    write_plan((uint32_t)round + 1, launches, any(20), any(20), first);
    CHECK(fikit_plan_read(&taken, &shared, seq) == FIKIT_PLAN_TAKEN);
    CHECK(taken.number == (uint32_t)round + 1);
    check_place(seq, first);
    check_walk(first, seq + any(40));
    for (uint64_t each = 1; each < 80; each++)
      check_first_uses(each, first);
    check_coming(seq);
  }
}

/* ---- while another one is written */

static _Atomic bool over;

static void *writes(void *unused) {
  for (uint32_t number = 1; !over; number++) {
    write_plan(number, 64, 64 + any(512), any(64), 1);
    for (volatile uint32_t pause = any(20000); pause > 0; pause--) /* in which a reader begins */
      ;
  }
  return unused;
}

static void torn(void) {
  pthread_t writer;
  unsigned whole = 0;
  pthread_create(&writer, NULL, writes, NULL);
  while (whole < 30000) {
    const enum fikit_plan_read read = fikit_plan_read(&taken, &shared, 1);
    CHECK(read != FIKIT_PLAN_SENSELESS);
    if (read == FIKIT_PLAN_CHANGES)
      continue;
    whole++;
    for (uint32_t i = 0; i < taken.count + taken.first_uses; i++)
      CHECK(taken.moves[i].chunk == taken.number);
  }
  over = true;
  pthread_join(writer, NULL);
}

/* ---- who looks from when on */

static struct fikit_device device;
static _Atomic uint64_t arrived;
enum { ROUNDS = 20000 };

/* Both threads go on at the same moment, which a barrier of the system's does not give. */
static void meet(uint64_t times) {
  atomic_fetch_add(&arrived, 1);
  for (unsigned i = 0; arrived < 2 * times; i++)
    if (i > 2000)
      sched_yield();
}

static void *sets(void *word) {
  for (uint64_t i = 1; i < ROUNDS; i++) {
    meet(2 * i - 1);
    fikit_look_set(&device, word, word == &device.sample_from ? i : ROUNDS - i);
    meet(2 * i);
    CHECK(device.look_from == (i < ROUNDS - i ? i : ROUNDS - i));
  }
  return NULL;
}

static void look(void) {
  pthread_t other;
  pthread_create(&other, NULL, sets, &device.sample_from);
  sets(&device.plan_from);
  pthread_join(other, NULL);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "reckon") == 0)
    reckon();
  else if (strcmp(what, "torn") == 0)
    torn();
  else if (strcmp(what, "look") == 0)
    look();
  puts("fine");
  return 0;
}
