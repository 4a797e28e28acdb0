/*
 * What a launch says of the memory that it touches (hooks/touches.h, memory/extents.h, memory/places.h), with allocations, frees, copies, kernels and
 * graphs of any arguments in any order: what stands in the ring is memory that is there, and nothing is missing that has room. Then the same with
 * another thread that allocates, frees and copies.
 *
 * A libFuzzer target (`make fuzz`), or a program of its own (alone.c). The driver, streams and graphs are not there: a graph is a list of ranges.
 */
#include "hooks/touches.h"
#include "identity/graph.h"
#include "memory/memory.h"
#include "streams/capture.h"
#include "streams/stream.h"

#include "beside.h"

enum { PLACES = 16, CONTEXTS = 3, MOST_COPIES = 32, MOST_RANGES = 200, SLOT = 5 };

/* The input: one after the other. */
struct op {
  uint8_t what, place;
  uint16_t size;
  uint32_t seed;
};

static struct fikit_page page = {.version = FIKIT_PROTOCOL_VERSION, .measure = 1};
/* What it measures is not looked into. */
static struct fikit_device device = {.page = &page, .measure = (struct fikit_measure *)&page}, other_device = {.page = &page};
static struct fikit_stream stream_of_all = {.device = &device};
static struct {
  _Atomic uint64_t at, bytes; /* bytes 0: nothing is there */
  CUcontext context;
} places[PLACES];
static bool learnt[PLACES]; /* told by numbers, when that was last looked at */
static bool numbers_are_gone; /* a program with so many sizes was there */

static struct fikit_range copies[MOST_COPIES + 1]; /* since the last launch */
static unsigned copied;
static struct fikit_range ranges[MOST_RANGES]; /* of the graph that is launched */
static unsigned range_count;
static uint64_t words[FIKIT_ARGUMENT_WORDS]; /* of the kernel that is launched */
static unsigned word_count;

/* Of the shim, what is not looked at here. */
__thread __attribute__((tls_model("initial-exec"))) struct fikit_stream_cache fikit_stream_cache[FIKIT_STREAM_CACHE];
_Atomic unsigned fikit_stream_epoch = 1;
_Atomic int fikit_captures;

struct fikit_stream *fikit_stream_find(CUstream stream) {
  return stream ? &stream_of_all : NULL;
}

bool fikit_measure_end(struct fikit_device *of, struct fikit_timed *timed, CUstream stream, uint32_t slot, uint64_t seq, int64_t called_ns) {
  return of && !timed && stream && slot && seq > 1 && called_ns;
}

void fikit_measure_spent(struct fikit_device *of, int64_t start_ns) {
  if (of != &device || !start_ns)
    abort();
}

uint64_t fikit_memory_host_bytes(const struct fikit_device *of) {
  return of == &device;
}

bool fikit_argument_words(const struct fikit_arguments *arguments, uint64_t *found, unsigned *count) {
  memcpy(found, words, word_count * sizeof *words);
  *count = word_count;
  return arguments->function == 1;
}

/* As graph_memory.c has it. */
bool fikit_graph_touches(CUgraphExec exec, const struct fikit_device *of, struct fikit_touch *touches, unsigned *found, unsigned most) {
  static struct fikit_touch all[MOST_RANGES];
  if (!exec)
    return false;
  unsigned count = fikit_extents_of_ranges(of, ranges, range_count, all, 0, MOST_RANGES);
  count = fikit_places_merge(all, count, most - *found);
  memcpy(&touches[*found], all, count * sizeof *all);
  *found += count;
  return true;
}

static uint64_t next(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
  return *state >> 20;
}

/* Odd places begin where the one before them ends. */
static uint64_t address_for(size_t place) {
  const uint64_t at = ((uint64_t)1 << 51) + (place / 2) * ((uint64_t)1 << 46);
  return place % 2 ? at + places[place - 1].bytes + (places[place - 1].bytes ? 0 : (uint64_t)1 << 40) : at;
}

/* Is memory at this place told by numbers? */
static bool is_learnt(size_t place) {
  uint64_t word = places[place].at;
  const bool known = places[place].bytes && fikit_extents_known(&word, 1) == 1;
  const bool wanted = places[place].bytes >= 1 << 20 && places[place].bytes <= (uint64_t)UINT32_MAX * FIKIT_TOUCH_PAGE_BYTES;
  check(known ? wanted : !wanted || numbers_are_gone);
  return known;
}

/* Of memory that is learnt; PLACES: there is none. */
static size_t place_at(uint64_t address) {
  for (size_t i = 0; i < PLACES; i++)
    if (address - places[i].at < places[i].bytes && learnt[i])
      return i;
  return PLACES;
}

/* Within memory, at its edges, or anywhere. */
static uint64_t some_address(uint64_t *state) {
  const size_t place = next(state) % PLACES;
  const uint64_t bytes = places[place].bytes;
  switch (next(state) % 8) {
  case 0:
    return next(state) << 20;
  case 1:
    return places[place].at + bytes;
  case 2:
    return places[place].at - 1;
  case 3:
    return places[place].at;
  default:
    return places[place].at + (bytes ? next(state) % bytes : 0);
  }
}

static struct fikit_range some_range(uint64_t *state) {
  const uint64_t at = some_address(state), lengths[] = {1, 4096, 1 << 21, next(state), UINT64_MAX - at, 0};
  return (struct fikit_range){at, lengths[next(state) % 6]};
}

/* A place that stands in the ring, or that a list has. Returns which memory it is. */
static size_t check_touch(const struct fikit_touch *touch) {
  check(touch->number < FIKIT_TOUCH_ALLOCATIONS && touch->length <= FIKIT_TOUCH_LENGTH);
  const size_t place = place_at(fikit_extent_base(&device, touch->number));
  check(place < PLACES && touch->pages == (places[place].bytes + FIKIT_TOUCH_PAGE_BYTES - 1) / FIKIT_TOUCH_PAGE_BYTES);
  check(touch->page < touch->pages && touch->length <= touch->pages - touch->page);
  return place;
}

static const struct fikit_entry *entry_at(uint64_t at) {
  check(at < atomic_load(&page.ring_head));
  return &page.ring[at % FIKIT_RING_ENTRIES];
}

static struct fikit_touch touch_of(const struct fikit_entry *entry) {
  check(entry->kind == FIKIT_ENTRY_TOUCH);
  return (struct fikit_touch){entry->slot % FIKIT_TOUCH_ALLOCATIONS, (uint32_t)entry->value, (uint32_t)(entry->value >> 32),
                              entry->slot / FIKIT_TOUCH_ALLOCATIONS};
}

/* Does a place say that this address was touched? Where its length is not known it may be. */
static bool says(const struct fikit_touch *touch, uint64_t address) {
  const size_t place = check_touch(touch);
  const uint64_t number = (address - places[place].at) / FIKIT_TOUCH_PAGE_BYTES;
  return address - places[place].at < places[place].bytes && number >= touch->page &&
         (touch->length == 0 || number < (uint64_t)touch->page + touch->length);
}

static bool one_says(const struct fikit_touch *touches, unsigned count, uint64_t address) {
  for (unsigned i = 0; i < count; i++)
    if (says(&touches[i], address))
      return true;
  return false;
}

/* What of each range is learnt is said: from where it begins to the end of that memory. */
static void check_ranges(const struct fikit_touch *touches, unsigned count, const struct fikit_range *all, unsigned range_number) {
  for (unsigned i = 0; i < range_number; i++) {
    const uint64_t last = all[i].at + all[i].bytes - (all[i].bytes > 0);
    const size_t place = place_at(all[i].at);
    check(place == PLACES || one_says(touches, count, all[i].at));
    check(place == PLACES || place_at(last) != place || one_says(touches, count, last));
  }
}

static bool meets(const struct fikit_range *range, uint64_t first) {
  return range->at - first < FIKIT_TOUCH_PAGE_BYTES || first - range->at < range->bytes;
}

/* Was there, since the launch before, anything in the first page of this place? */
static bool is_named(const struct fikit_touch *touch) {
  const uint64_t first = fikit_extent_base(&device, touch->number) + (uint64_t)touch->page * FIKIT_TOUCH_PAGE_BYTES;
  bool found = false;
  for (unsigned i = 0; i < copied; i++)
    found = found || meets(&copies[i], first);
  for (unsigned i = 0; i < range_count; i++)
    found = found || meets(&ranges[i], first);
  for (unsigned i = 0; i < word_count; i++)
    found = found || words[i] - first < FIKIT_TOUCH_PAGE_BYTES;
  return found;
}

/* Behind a launch: what it says from `begin` on. */
static void check_report(uint64_t begin, uint64_t seq, bool graph) {
  struct fikit_touch touches[FIKIT_TOUCHES];
  const uint64_t end = atomic_load(&page.ring_head);
  unsigned count = 0;
  for (size_t i = 0; i < PLACES; i++)
    learnt[i] = is_learnt(i);
  if (end > begin) {
    const struct fikit_entry *head = entry_at(begin);
    check(head->kind == FIKIT_ENTRY_TOUCHES && head->slot == SLOT && head->before == seq && head->value == end - begin - 1);
    check(head->value <= FIKIT_TOUCHES);
    for (uint64_t at = begin + 1; at < end; at++) {
      check(entry_at(at)->before == seq);
      touches[count] = touch_of(entry_at(at));
      check(copied > MOST_COPIES || is_named(&touches[count]));
      check_touch(&touches[count++]);
    }
  }
  if (count == FIKIT_TOUCHES) /* more may not have had room */
    return;
  if (copied <= MOST_COPIES)
    check_ranges(touches, count, copies, copied);
  if (graph)
    check_ranges(touches, count, ranges, range_count);
  for (unsigned i = 0; !graph && i < word_count; i++)
    check(place_at(words[i]) == PLACES || one_says(touches, count, words[i]));
}

static void launch(const struct op *op, bool alone) {
  uint64_t state = op->seed;
  const bool graph = op->what % 2, is_counted_only = op->size % 16 == 0, has_room = op->size % 64 != 1;
  const struct fikit_launched launched = {.kernel.function = graph ? 0 : 1, .graph = graph ? (CUgraphExec)1 : NULL};
  range_count = graph ? op->size % (MOST_RANGES + 1) : 0;
  word_count = graph ? 0 : op->size % (FIKIT_ARGUMENT_WORDS + 1);
  for (unsigned i = 0; i < range_count; i++)
    ranges[i] = some_range(&state);
  for (unsigned i = 0; i < word_count; i++)
    words[i] = some_address(&state);
  const uint64_t seq = atomic_fetch_add(&page.launch_seq, 1) + 1, begin = atomic_load(&page.ring_head);
  atomic_store(&page.ring_tail, has_room || begin < FIKIT_RING_ENTRIES ? begin : begin - FIKIT_RING_ENTRIES / 2);
  if (!is_counted_only) {
    fikit_touches_timed(&device, NULL, (CUstream)1, SLOT, seq, 1, &launched);
    if (alone && atomic_load(&page.ring_tail) == begin && fikit_extents_any())
      check_report(begin, seq, graph);
  }
  copied = 0;
}

/* What the driver would take: within one allocation. */
static uint64_t copied_bytes(const struct fikit_range *range) {
  for (size_t i = 0; i < PLACES; i++) {
    const uint64_t offset = range->at - places[i].at;
    if (offset < places[i].bytes)
      return range->bytes < places[i].bytes - offset ? range->bytes : places[i].bytes - offset;
  }
  return range->bytes > 0;
}

static void copy(const struct op *op) {
  uint64_t state = op->seed;
  for (int i = op->size % 40; i >= 0; i--) {
    struct fikit_range range = some_range(&state);
    if (op->size & 256 && copied && copied <= MOST_COPIES) /* the next one through the same buffer, or through the next one */
      range.at = copies[copied - 1].at + copies[copied - 1].bytes;
    range.bytes = copied_bytes(&range);
    fikit_touches_copied((CUstream)1, range.at, range.bytes);
    if (range.bytes && copied <= MOST_COPIES)
      copies[copied++] = range;
  }
}

static void come(const struct op *op, size_t place) {
  const uint64_t granted = 1 + op->size * (uint64_t)(op->seed % 3 ? 63 * 1024 : 1 << 21);
  places[place].at = address_for(place);
  places[place].context = (CUcontext)(uintptr_t)(1 + op->seed % CONTEXTS);
  places[place].bytes = op->seed % 64 == 0 ? (uint64_t)1 << 45 >> op->size % 8 : granted;
  if (place % 2 == 0 && places[place + 1].bytes && places[place].bytes > places[place + 1].at - places[place].at)
    places[place].bytes = places[place + 1].at - places[place].at;
  fikit_extent_add(&device, places[place].context, places[place].at, places[place].bytes);
}

static void go(size_t place, bool alone) {
  const uint64_t begin = atomic_load(&page.ring_head);
  const bool known = alone && is_learnt(place);
  if (alone)
    atomic_store(&page.ring_tail, begin);
  fikit_extent_remove(places[place].at);
  places[place].bytes = 0;
  if (alone)
    check(atomic_load(&page.ring_head) == begin + known && (!known || entry_at(begin)->kind == FIKIT_ENTRY_FREED));
}

static void come_or_go(const struct op *op, bool alone) {
  const size_t place = op->place % PLACES;
  if (places[place].bytes)
    go(place, alone);
  else
    come(op, place);
  copied = MOST_COPIES + 1; /* of memory that has another number since: not looked at */
}

static void end_context(CUcontext context) {
  fikit_extents_context_gone(context);
  for (size_t i = 0; i < PLACES; i++)
    if (places[i].context == context)
      places[i].bytes = 0;
  copied = MOST_COPIES + 1;
}

/* A program that has as many sizes as there are numbers. */
static void use_up_numbers(void) {
  for (uint64_t i = 0; i < FIKIT_TOUCH_ALLOCATIONS; i++) {
    fikit_extent_add(&device, (CUcontext)(uintptr_t)(CONTEXTS + 1), (uint64_t)1 << 60, (1 << 20) + i * 3 * FIKIT_TOUCH_PAGE_BYTES);
    fikit_extent_remove((uint64_t)1 << 60);
    atomic_store(&page.ring_tail, atomic_load(&page.ring_head));
  }
  numbers_are_gone = true;
}

static void play(const struct op *op, bool alone) {
  switch (op->what % 16) {
  case 0:
    end_context((CUcontext)(uintptr_t)(1 + op->place % CONTEXTS));
    break;
  case 1:
    if (op->size % 256 == 255)
      use_up_numbers();
    break;
  case 2:
  case 3:
  case 4:
  case 5:
    launch(op, alone);
    break;
  case 6:
  case 7:
  case 8:
    copy(op);
    break;
  default:
    come_or_go(op, alone);
  }
}

/* The other thread's own memory, and addresses of all. */
static void *go_beside(void *argument) {
  struct fikit_touch found[FIKIT_TOUCHES];
  uint64_t state = 1;
  while (!over) {
    const uint64_t at = ((uint64_t)1 << 50) + next(&state) % 8 * (1 << 24);
    struct fikit_range range = some_range(&state);
    fikit_extent_add(&device, (CUcontext)(uintptr_t)(CONTEXTS + 1), at, (1 << 20) + next(&state) % (1 << 20));
    fikit_touches_copied((CUstream)1, at, 4096);
    unsigned count = fikit_extents_of(&device, &range.at, 1, found, 0, FIKIT_TOUCHES);
    count = fikit_extents_of_ranges(&device, &range, 1, found, count, FIKIT_TOUCHES);
    check(fikit_places_merge(found, count, 2) <= 2 && fikit_extents_of(&other_device, &at, 1, found, 0, 1) == 0);
    fikit_extent_remove(((uint64_t)1 << 50) + next(&state) % 8 * (1 << 24));
  }
  return argument;
}

/* After it nothing is known. */
static void empty(void) {
  uint64_t word = 0;
  for (uintptr_t i = 1; i <= CONTEXTS + 1; i++)
    end_context((CUcontext)i);
  for (size_t i = 0; i < PLACES; i++) {
    word = places[i].at;
    check(fikit_extents_known(&word, 1) == 0);
  }
  fikit_extents_forget_all();
  numbers_are_gone = false;
  atomic_fetch_add(&page.launch_seq, 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  play_alone_and_beside(data, size, sizeof(struct op), play, go_beside, empty);
  return 0;
}
