#include "memory/extents.h"
#include "base/lock.h"
#include "memory/memory.h"

#include <string.h>

/* Smaller memory does not move (convert.c), and a program has at most so many pieces that are told apart: of what is beyond them nothing
 * is learnt. */
enum { LEAST_BYTES = 1 << 20 };

struct extent {
  uint64_t base, bytes;
  const struct fikit_device *device;
  CUcontext context;
  uint32_t number;
};

static struct extent extents[FIKIT_TOUCH_ALLOCATIONS]; /* by base */
static unsigned count;
static struct {
  uint32_t pages; /* that memory of this number has or had; 0: there was none */
  bool used;
} numbers[FIKIT_TOUCH_ALLOCATIONS];
static _Atomic bool any;
FIKIT_LOCK(guard);

static bool wanted(const struct fikit_device *device, uint64_t bytes) {
  return device && device->page && bytes >= LEAST_BYTES && bytes <= (uint64_t)UINT32_MAX * FIKIT_TOUCH_PAGE_BYTES &&
         (device->page->measure || fikit_memory_host_bytes(device));
}

/* Under the lock: how many begin at `address` or before. */
static unsigned up_to(uint64_t address) {
  unsigned low = 0, high = count;
  while (low < high) {
    const unsigned middle = low + (high - low) / 2;
    if (extents[middle].base <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Under the lock. */
static void remove_at(unsigned i) {
  numbers[extents[i].number].used = false;
  memmove(&extents[i], &extents[i + 1], (--count - i) * sizeof *extents);
}

/* Under the lock; FIKIT_TOUCH_ALLOCATIONS: there is none left. */
static uint32_t number_for(uint32_t pages) {
  for (uint32_t i = 0; i < FIKIT_TOUCH_ALLOCATIONS; i++)
    if (!numbers[i].pages || (numbers[i].pages == pages && !numbers[i].used)) {
      numbers[i].pages = pages;
      numbers[i].used = true;
      return i;
    }
  return FIKIT_TOUCH_ALLOCATIONS;
}

void fikit_extent_add(struct fikit_device *device, CUcontext context, uint64_t base, uint64_t bytes) {
  if (!wanted(device, bytes) || !fikit_lock(&guard))
    return;
  unsigned at = up_to(base);
  if (at > 0 && extents[at - 1].base == base) /* its end was not told */
    remove_at(--at);
  const uint32_t pages = (uint32_t)((bytes + FIKIT_TOUCH_PAGE_BYTES - 1) / FIKIT_TOUCH_PAGE_BYTES);
  const uint32_t number = count < FIKIT_TOUCH_ALLOCATIONS ? number_for(pages) : FIKIT_TOUCH_ALLOCATIONS;
  if (number < FIKIT_TOUCH_ALLOCATIONS) {
    memmove(&extents[at + 1], &extents[at], (count++ - at) * sizeof *extents);
    extents[at] = (struct extent){base, bytes, device, context, number};
    atomic_store_explicit(&any, true, memory_order_relaxed);
  }
  fikit_unlock(&guard);
}

void fikit_extent_remove(uint64_t base) {
  if (!fikit_extents_any() || !fikit_lock(&guard))
    return;
  const unsigned at = up_to(base);
  if (at > 0 && extents[at - 1].base == base)
    remove_at(at - 1);
  fikit_unlock(&guard);
}

bool fikit_extents_any(void) {
  return atomic_load_explicit(&any, memory_order_relaxed);
}

static bool is_among(const struct fikit_touch *touches, unsigned found, uint32_t number, uint32_t page) {
  for (unsigned i = 0; i < found; i++)
    if (touches[i].number == number && touches[i].page == page)
      return true;
  return false;
}

unsigned fikit_extents_of(const struct fikit_device *device, const uint64_t *words, unsigned word_count, struct fikit_touch *touches,
                          unsigned most) {
  unsigned found = 0;
  if (!fikit_lock(&guard))
    return 0;
  for (unsigned i = 0; i < word_count && found < most; i++) {
    const unsigned at = up_to(words[i]);
    const struct extent *extent = at > 0 ? &extents[at - 1] : NULL;
    if (!extent || extent->device != device || words[i] - extent->base >= extent->bytes)
      continue;
    const uint32_t page = (uint32_t)((words[i] - extent->base) / FIKIT_TOUCH_PAGE_BYTES);
    if (!is_among(touches, found, extent->number, page))
      touches[found++] = (struct fikit_touch){extent->number, page, numbers[extent->number].pages};
  }
  fikit_unlock(&guard);
  return found;
}

void fikit_extents_context_gone(CUcontext context) {
  if (!fikit_extents_any() || !fikit_lock(&guard))
    return;
  for (unsigned i = count; i-- > 0;)
    if (extents[i].context == context)
      remove_at(i);
  fikit_unlock(&guard);
}

void fikit_extents_forget_all(void) {
  count = 0;
  memset(numbers, 0, sizeof numbers);
  atomic_store_explicit(&any, false, memory_order_relaxed);
}
