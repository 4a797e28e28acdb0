#include "gate/plan.h"
#include "base/look.h"

#include <string.h>

/* Word by word: fikitd may be writing it. */
static void copy_moves(struct fikit_plan_move *to, const struct fikit_plan_move *from, uint32_t count) {
  typedef uint64_t __attribute__((may_alias)) word;
  const size_t words = count * sizeof *from / sizeof(word);
  for (size_t i = 0; i < words; i++)
    ((word *)to)[i] = __atomic_load_n((const word *)from + i, __ATOMIC_RELAXED);
}

static bool is_place(const struct fikit_plan_move *entry) {
  return entry->allocation < FIKIT_TOUCH_ALLOCATIONS && entry->chunks >= 1 && entry->chunks <= FIKIT_PLAN_CHUNKS;
}

static bool moves_make_sense(const struct fikit_taken_plan *plan) {
  uint32_t after = 0;
  for (const struct fikit_plan_move *move = plan->moves; move < plan->moves + plan->count; move++) {
    if (move->after < after || move->after >= plan->launches || !is_place(move) ||
        (move->copy != FIKIT_COPY_IN && move->copy != FIKIT_COPY_OUT) || (move->copy == FIKIT_COPY_IN && move->before >= plan->launches))
      return false;
    after = move->after;
  }
  return true;
}

static const struct fikit_plan_move *first_uses(const struct fikit_taken_plan *plan) {
  return plan->moves + plan->count;
}

static bool first_uses_make_sense(const struct fikit_taken_plan *plan) {
  uint32_t before = 0;
  for (const struct fikit_plan_move *use = first_uses(plan); use < first_uses(plan) + plan->first_uses; use++) {
    if (use->copy != FIKIT_COPY_NONE || use->before < before || use->before >= plan->launches || !is_place(use))
      return false;
    before = use->before;
  }
  return true;
}

/* The place of launch number `seq` within its pass. */
static uint32_t place_of(const struct fikit_taken_plan *plan, uint64_t seq) {
  const uint64_t launches = plan->launches;
  return (uint32_t)(seq >= plan->pass ? (seq - plan->pass) % launches : (launches - (plan->pass - seq) % launches) % launches);
}

/* How many first uses are of launches of the pass before that one. */
static uint32_t uses_before(const struct fikit_taken_plan *plan, uint32_t place) {
  uint32_t low = 0, high = plan->first_uses;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (first_uses(plan)[middle].before < place)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Begins with the pass of launch number `seq`, or with the first pass where that is still to come. */
static void begin_at(struct fikit_taken_plan *plan, uint64_t first_launch, uint64_t seq) {
  const uint64_t place = seq > first_launch ? (seq - first_launch) % plan->launches : 0;
  plan->pass = (seq > first_launch ? seq : first_launch) - place;
  plan->next = 0;
  while (plan->next < plan->count && plan->moves[plan->next].after < place)
    plan->next++;
  if (plan->next == plan->count)
    fikit_plan_advance(plan);
}

/* The next first uses are those of launch number `seq` or a later one. */
static void uses_from(struct fikit_taken_plan *plan, uint64_t seq) {
  plan->use = FIKIT_LOOK_NEVER;
  if (plan->first_uses == 0 || seq > FIKIT_PLAN_MOST_SEQ)
    return;
  const uint32_t place = place_of(plan, seq), before = uses_before(plan, place);
  const uint32_t next = before < plan->first_uses ? first_uses(plan)[before].before : plan->launches + first_uses(plan)->before;
  plan->use = seq + (next - place);
}

enum fikit_plan_read fikit_plan_read(struct fikit_taken_plan *plan, const struct fikit_plan *shared, uint64_t seq) {
  const uint32_t number = atomic_load_explicit(&shared->number, memory_order_acquire);
  plan->number = 0;
  plan->launches = atomic_load_explicit(&shared->launches, memory_order_relaxed);
  plan->count = atomic_load_explicit(&shared->count, memory_order_relaxed);
  plan->first_uses = atomic_load_explicit(&shared->first_uses, memory_order_relaxed);
  const uint64_t first_launch = atomic_load_explicit(&shared->first_launch, memory_order_relaxed);
  const bool fits = plan->count <= FIKIT_PLAN_MOVES && plan->first_uses <= FIKIT_PLAN_MOVES - plan->count && plan->launches >= 1 && plan->launches <= FIKIT_PLAN_LAUNCHES &&
                    first_launch >= 1 && first_launch <= FIKIT_PLAN_MOST_SEQ && seq <= FIKIT_PLAN_MOST_SEQ;
  if (fits)
    copy_moves(plan->moves, shared->moves, plan->count + plan->first_uses);
  atomic_thread_fence(memory_order_acquire);
  if (number == 0 || atomic_load_explicit(&shared->number, memory_order_relaxed) != number)
    return FIKIT_PLAN_CHANGES;
  if (!fits || !moves_make_sense(plan) || !first_uses_make_sense(plan))
    return FIKIT_PLAN_SENSELESS;
  begin_at(plan, first_launch, seq);
  uses_from(plan, seq);
  plan->number = number;
  return FIKIT_PLAN_TAKEN;
}

static uint64_t begins(const struct fikit_taken_plan *plan, uint64_t pass, uint32_t index) {
  return pass + plan->moves[index].after;
}

static uint64_t needed(const struct fikit_taken_plan *plan, uint64_t pass, uint32_t index) {
  const struct fikit_plan_move *move = &plan->moves[index];
  return pass + move->before + (move->before > move->after ? 0 : plan->launches);
}

uint64_t fikit_plan_next(const struct fikit_taken_plan *plan) {
  return plan->number && plan->count ? begins(plan, plan->pass, plan->next) : FIKIT_LOOK_NEVER;
}

uint64_t fikit_plan_needed(const struct fikit_taken_plan *plan) {
  return needed(plan, plan->pass, plan->next);
}

void fikit_plan_advance(struct fikit_taken_plan *plan) {
  if (++plan->next >= plan->count) {
    plan->next = 0;
    plan->pass += plan->launches;
  }
}

uint64_t fikit_plan_catch_up(struct fikit_taken_plan *plan, uint64_t seq) {
  const uint64_t behind = seq > plan->pass ? (seq - plan->pass) / plan->launches : 0;
  if (behind < 2)
    return 0;
  plan->pass += (behind - 1) * plan->launches;
  return (behind - 1) * plan->count;
}

uint64_t fikit_plan_late(const struct fikit_taken_plan *plan, uint64_t seq) {
  struct fikit_taken_plan_place {
    uint64_t pass;
    uint32_t next;
  } at = {plan->pass, plan->next};
  uint64_t seen = 0, late = 0;
  while (plan->count && begins(plan, at.pass, at.next) <= seq) {
    seen++;
    if (plan->moves[at.next].copy == FIKIT_COPY_IN && needed(plan, at.pass, at.next) <= seq)
      late = seen;
    if (++at.next == plan->count) {
      at.next = 0;
      at.pass += plan->launches;
    }
  }
  return late;
}

const struct fikit_plan_move *fikit_plan_first_use(const struct fikit_taken_plan *plan, uint64_t seq, uint32_t i) {
  if (plan->number == 0)
    return NULL;
  const uint32_t place = place_of(plan, seq), before = uses_before(plan, place);
  const struct fikit_plan_move *use = first_uses(plan) + before + i;
  return i < plan->first_uses - before && use->before == place ? use : NULL;
}

uint64_t fikit_plan_next_use(const struct fikit_taken_plan *plan) {
  return plan->number ? plan->use : FIKIT_LOOK_NEVER;
}

bool fikit_plan_comes_to(struct fikit_taken_plan *plan, uint64_t seq) {
  if (seq < fikit_plan_next_use(plan))
    return false;
  uses_from(plan, seq);
  const bool has_uses = plan->use == seq;
  if (has_uses)
    uses_from(plan, seq + 1);
  return has_uses;
}

void fikit_plan_forget_uses(struct fikit_taken_plan *plan) {
  plan->first_uses = 0;
  plan->use = FIKIT_LOOK_NEVER;
}
