/*
 * What the shim reads of a plan of its memory (struct fikit_plan), from a fikitd that is broken or writes it at that very moment: any
 * words. A plan that is taken makes sense, what comes next goes forwards, and to catch up takes a bounded number of steps however many
 * launches were not seen.
 *
 * A libFuzzer target (`make fuzz`), or a program of its own (alone.c). The driver is not there.
 */
#include "gate/plan.h"
#include "base/look.h"

#include <stdlib.h>
#include <string.h>

/* The input: the words of the plan, then its moves and first uses, one way of writing them at a time; at the end what the program does. */
struct head {
  uint32_t number, launches, count, first_uses;
  uint64_t first_launch, seq;
  uint8_t sorted; /* 0: the moves as they are; else made to make sense, so that most are taken */
  uint8_t tame;   /* the same of the words above */
};

static struct fikit_plan shared;
static struct fikit_taken_plan taken;

/* The entry as a move behind that launch, or as a first use of it. */
static struct fikit_plan_move tamed(const struct fikit_plan_move *entry, uint32_t launch, bool is_use) {
  struct fikit_plan_move made = {.after = is_use ? 0 : launch,
                                 .before = is_use ? launch : entry->before % shared.launches,
                                 .chunk = entry->chunk,
                                 .allocation = entry->allocation % FIKIT_TOUCH_ALLOCATIONS,
                                 .chunks = 1 + entry->chunks % FIKIT_PLAN_CHUNKS,
                                 .copy = entry->copy % 2 ? FIKIT_COPY_IN : FIKIT_COPY_OUT};
  if (is_use)
    made.copy = FIKIT_COPY_NONE;
  return made;
}

static void tame(const struct head *head) {
  uint32_t launch = 0;
  shared.launches = 1 + head->launches % 40;
  shared.first_launch = 1 + head->first_launch % 100;
  for (uint64_t i = 0; i < (uint64_t)shared.count + shared.first_uses && i < FIKIT_PLAN_MOVES; i++) {
    launch = i == shared.count ? 0 : launch + (shared.moves[i].after % 4 == 0);
    launch = launch < shared.launches ? launch : shared.launches - 1;
    shared.moves[i] = tamed(&shared.moves[i], launch, i >= shared.count);
  }
}

static void write_plan(const struct head *head, const uint8_t *moves, size_t bytes) {
  const size_t most = bytes < sizeof shared.moves ? bytes : sizeof shared.moves;
  memset(&shared, 0, sizeof shared);
  memcpy(shared.moves, moves, most);
  shared.number = head->number;
  shared.launches = head->launches;
  shared.first_launch = head->first_launch;
  const uint32_t entries = (uint32_t)(most / sizeof *shared.moves);
  shared.first_uses = head->tame % 4 ? head->first_uses % (entries + 1) : head->first_uses;
  shared.count = head->tame % 4 ? entries - shared.first_uses : head->count;
  if (head->sorted)
    tame(head);
}

static void check(bool condition) {
  if (!condition)
    abort();
}

static void check_taken(void) {
  check((uint64_t)taken.count + taken.first_uses <= FIKIT_PLAN_MOVES && taken.launches >= 1 && taken.launches <= FIKIT_PLAN_LAUNCHES);
  for (uint32_t i = 0; i < taken.count; i++) {
    const struct fikit_plan_move *move = &taken.moves[i];
    check(move->after < taken.launches && move->allocation < FIKIT_TOUCH_ALLOCATIONS);
    check(move->chunks >= 1 && move->chunks <= FIKIT_PLAN_CHUNKS);
    check(move->copy == FIKIT_COPY_IN ? move->before < taken.launches : move->copy == FIKIT_COPY_OUT);
    check(i == 0 || taken.moves[i - 1].after <= move->after);
  }
}

/* Each launch of a pass finds its own first uses and no others, wherever the pass stands. */
static void check_first_uses(uint64_t seq, uint64_t first_launch) {
  uint32_t found = 0;
  for (uint64_t next = seq; next < seq + taken.launches; next++) {
    const struct fikit_plan_move *use;
    for (uint32_t i = 0; (use = fikit_plan_first_use(&taken, next, i)); i++) {
      check(use >= taken.moves + taken.count && use < taken.moves + taken.count + taken.first_uses);
      check(use->copy == FIKIT_COPY_NONE && use->allocation < FIKIT_TOUCH_ALLOCATIONS && use->chunks >= 1);
      check(use->chunks <= FIKIT_PLAN_CHUNKS && (next + taken.launches - use->before) % taken.launches == first_launch % taken.launches);
      found++;
    }
  }
  check(found == taken.first_uses);
}

/* Launch by launch: none that has first uses is passed by, and none is looked at in vain. */
static void check_coming(uint64_t seq) {
  for (uint64_t next = seq; next < seq + 2 * taken.launches; next++) {
    const bool has_uses = fikit_plan_first_use(&taken, next, 0);
    check(taken.first_uses || fikit_plan_next_use(&taken) == FIKIT_LOOK_NEVER);
    check((fikit_plan_next_use(&taken) == next) == has_uses);
    check(fikit_plan_comes_to(&taken, next) == has_uses);
    check(fikit_plan_next_use(&taken) > next);
  }
  check(!fikit_plan_comes_to(&taken, UINT64_MAX - 1) && fikit_plan_next_use(&taken) == FIKIT_LOOK_NEVER);
}

/* To the next move, which does not begin before the one that was, and is needed behind where it begins. */
static uint64_t go_past(uint64_t before) {
  const uint64_t begins = fikit_plan_next(&taken);
  check(begins >= before);
  check(taken.moves[taken.next].copy == FIKIT_COPY_OUT || fikit_plan_needed(&taken) > begins);
  fikit_plan_advance(&taken);
  return begins;
}

/* As gate/carry.c goes through it, launch by launch, and now and then with many that it has not seen. */
static void go_on(uint64_t seq, const uint8_t *steps, size_t count) {
  uint64_t before = 0;
  for (size_t i = 0; i < count; i++) {
    seq += steps[i] % 16 == 15 ? (uint64_t)steps[i] << steps[i] / 16 * 2 : steps[i] % 3;
    fikit_plan_catch_up(&taken, seq);
    const uint64_t late = fikit_plan_late(&taken, seq);
    check(late <= 2 * taken.count); /* of the pass that is under way, and of the one before */
    for (uint64_t each = 0; each < late; each++)
      before = go_past(before);
    for (int moves = 0; moves < 100 && fikit_plan_next(&taken) <= seq; moves++)
      before = go_past(before);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct head head;
  if (size < sizeof head + 8)
    return 0;
  memcpy(&head, data, sizeof head);
  write_plan(&head, data + sizeof head, size - sizeof head);
  const uint64_t seq = 1 + head.seq % (UINT64_C(1) << 40);
  const enum fikit_plan_read read = fikit_plan_read(&taken, &shared, seq);
  check(read == FIKIT_PLAN_TAKEN || (taken.number == 0 && fikit_plan_next(&taken) == FIKIT_LOOK_NEVER));
  switch (read) {
  case FIKIT_PLAN_TAKEN:
    check(taken.number == head.number && taken.number != 0);
    check(taken.count == 0 ? fikit_plan_next(&taken) == FIKIT_LOOK_NEVER : fikit_plan_next(&taken) >= seq);
    check_taken();
    check_first_uses(seq, shared.first_launch);
    check_coming(seq);
    go_on(seq, data + size - 8, 8);
    break;
  case FIKIT_PLAN_CHANGES:
    check(head.number == 0);
    break;
  case FIKIT_PLAN_SENSELESS:
    check(!head.sorted || (uint64_t)shared.count + shared.first_uses > FIKIT_PLAN_MOVES);
    break;
  }
  return 0;
}
