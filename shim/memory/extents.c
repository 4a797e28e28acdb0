#include "memory/extents.h"
#include "base/lock.h"
#include "base/page.h"
#include "memory/memory.h"

#include <string.h>

/* Smaller memory does not move (convert.c). Of a program's allocations beyond FIKIT_TOUCH_ALLOCATIONS nothing is learnt. */
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
  uint32_t pages; /* of the memory that has or had this number; 0: none had it */
  bool used;
  uint64_t base; /* while it is used */
  const struct fikit_device *device;
} numbers[FIKIT_TOUCH_ALLOCATIONS];
_Atomic bool fikit_extents_there;
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
  if (at > 0 && extents[at - 1].base == base) /* its free went unseen */
    remove_at(--at);
  const uint32_t pages = (uint32_t)((bytes + FIKIT_TOUCH_PAGE_BYTES - 1) / FIKIT_TOUCH_PAGE_BYTES);
  const uint32_t number = count < FIKIT_TOUCH_ALLOCATIONS ? number_for(pages) : FIKIT_TOUCH_ALLOCATIONS;
  if (number < FIKIT_TOUCH_ALLOCATIONS) {
    memmove(&extents[at + 1], &extents[at], (count++ - at) * sizeof *extents);
    extents[at] = (struct extent){base, bytes, device, context, number};
    numbers[number].base = base;
    numbers[number].device = device;
    atomic_store_explicit(&fikit_extents_there, true, memory_order_relaxed);
  }
  fikit_unlock(&guard);
}

/* Not where the ring is half full: other entries are worth more, and the same free is reported in the next pass. */
static void report_freed(const struct extent *extent) {
  struct fikit_page *page = extent->device->page;
  const uint64_t waiting =
    atomic_load_explicit(&page->ring_head, memory_order_relaxed) - atomic_load_explicit(&page->ring_tail, memory_order_acquire);
  if (page->version >= FIKIT_SINCE_PLANS && waiting < FIKIT_RING_ENTRIES / 2)
    fikit_page_put(page, FIKIT_ENTRY_FREED, extent->number, 0, (int64_t)atomic_load_explicit(&page->launch_seq, memory_order_relaxed));
}

void fikit_extent_remove(uint64_t base) {
  if (!fikit_extents_any() || !fikit_lock(&guard))
    return;
  const unsigned at = up_to(base);
  if (at > 0 && extents[at - 1].base == base) {
    report_freed(&extents[at - 1]);
    remove_at(at - 1);
  }
  fikit_unlock(&guard);
}

static bool is_among(const struct fikit_touch *touches, unsigned found, const struct fikit_touch *touch) {
  for (unsigned i = 0; i < found; i++)
    if (touches[i].number == touch->number && touches[i].page == touch->page && touches[i].length == touch->length)
      return true;
  return false;
}

/* Under the lock. */
static const struct extent *extent_at(uint64_t address) {
  const unsigned at = up_to(address);
  return at > 0 && address - extents[at - 1].base < extents[at - 1].bytes ? &extents[at - 1] : NULL;
}

/* Under the lock. False: the range begins in no memory of the table. */
static bool place_of(const struct fikit_device *device, const struct fikit_range *range, struct fikit_touch *touch) {
  const struct extent *extent = extent_at(range->at);
  if (!extent || extent->device != device)
    return false;
  const uint64_t offset = range->at - extent->base, left = extent->bytes - offset;
  const uint64_t end = offset + (range->bytes < left ? range->bytes : left);
  const uint64_t page = offset / FIKIT_TOUCH_PAGE_BYTES;
  const uint64_t length = range->bytes ? (end + FIKIT_TOUCH_PAGE_BYTES - 1) / FIKIT_TOUCH_PAGE_BYTES - page : 0;
  *touch = (struct fikit_touch){extent->number, (uint32_t)page, numbers[extent->number].pages,
                                length <= FIKIT_TOUCH_LENGTH ? (uint32_t)length : 0};
  return true;
}

unsigned fikit_extents_of(const struct fikit_device *device, const uint64_t *words, unsigned word_count, struct fikit_touch *touches,
                          unsigned found, unsigned most) {
  if (!fikit_lock(&guard))
    return found;
  for (unsigned i = 0; i < word_count && found < most; i++)
    if (place_of(device, &(struct fikit_range){words[i], 0}, &touches[found]) && !is_among(touches, found, &touches[found]))
      found++;
  fikit_unlock(&guard);
  return found;
}

uint64_t fikit_extent_base(const struct fikit_device *device, uint32_t number) {
  uint64_t base = 0;
  if (number >= FIKIT_TOUCH_ALLOCATIONS || !fikit_lock(&guard))
    return 0;
  if (numbers[number].used && numbers[number].device == device)
    base = numbers[number].base;
  fikit_unlock(&guard);
  return base;
}

unsigned fikit_extents_of_ranges(const struct fikit_device *device, const struct fikit_range *ranges, unsigned range_count,
                                 struct fikit_touch *touches, unsigned found, unsigned most) {
  if (!fikit_lock(&guard))
    return found;
  for (unsigned i = 0; i < range_count && found < most; i++)
    if (place_of(device, &ranges[i], &touches[found]) && !is_among(touches, found, &touches[found]))
      found++;
  fikit_unlock(&guard);
  return found;
}

bool fikit_extent_begins(uint64_t address) {
  if (!fikit_lock(&guard))
    return false;
  const unsigned at = up_to(address);
  const bool begins = at > 0 && extents[at - 1].base == address;
  fikit_unlock(&guard);
  return begins;
}

unsigned fikit_extents_known(uint64_t *words, unsigned word_count) {
  unsigned known = 0;
  if (!fikit_lock(&guard))
    return 0;
  for (unsigned i = 0; i < word_count; i++)
    if (extent_at(words[i]))
      words[known++] = words[i];
  fikit_unlock(&guard);
  return known;
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
  atomic_store_explicit(&fikit_extents_there, false, memory_order_relaxed);
}
