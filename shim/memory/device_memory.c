/*
 * Ranges in the order of their addresses. A writer makes `version` odd, changes the ranges and makes it even; a reader takes what it found only if `version` was even and
 * is still the same. So a reader never waits, and every word is atomic because the two overlap.
 */
#include "memory/device_memory.h"
#include "base/lock.h"

/* What is allocated beyond that is not known. A program keeps its memory in far fewer pieces: its own allocator divides them. */
enum { MOST_RANGES = 8192, TRIES = 2 };

struct range {
  _Atomic uint64_t base, bytes;
  CUcontext context; /* read by writers alone */
};

static struct range ranges[MOST_RANGES];
static _Atomic unsigned count;
static _Atomic unsigned version;
FIKIT_LOCK(changing);

static uint64_t base_of(unsigned i) {
  return atomic_load_explicit(&ranges[i].base, memory_order_relaxed);
}

/* How many begin at `address` or before. */
static unsigned up_to(uint64_t address) {
  unsigned low = 0, high = atomic_load_explicit(&count, memory_order_relaxed);
  while (low < high) {
    const unsigned middle = low + (high - low) / 2;
    if (base_of(middle) <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void set(unsigned i, CUcontext context, uint64_t base, uint64_t bytes) {
  atomic_store_explicit(&ranges[i].base, base, memory_order_relaxed);
  atomic_store_explicit(&ranges[i].bytes, bytes, memory_order_relaxed);
  ranges[i].context = context;
}

static void copy(unsigned to, unsigned from) {
  set(to, ranges[from].context, base_of(from), atomic_load_explicit(&ranges[from].bytes, memory_order_relaxed));
}

static bool begin_change(void) {
  if (!fikit_lock(&changing))
    return false;
  atomic_fetch_add_explicit(&version, 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  return true;
}

static void end_change(void) {
  atomic_fetch_add_explicit(&version, 1, memory_order_release);
  fikit_unlock(&changing);
}

void fikit_device_memory_add(CUcontext context, uint64_t base, uint64_t bytes) {
  if (!bytes || !begin_change())
    return;
  const unsigned known = atomic_load_explicit(&count, memory_order_relaxed), at = up_to(base);
  if (at > 0 && base_of(at - 1) == base) { /* its free went unseen */
    set(at - 1, context, base, bytes);
  } else if (known < MOST_RANGES) {
    for (unsigned i = known; i > at; i--)
      copy(i, i - 1);
    set(at, context, base, bytes);
    atomic_store_explicit(&count, known + 1, memory_order_relaxed);
  }
  end_change();
}

void fikit_device_memory_remove(uint64_t base) {
  if (!begin_change())
    return;
  const unsigned known = atomic_load_explicit(&count, memory_order_relaxed), at = up_to(base);
  if (at > 0 && base_of(at - 1) == base) {
    for (unsigned i = at; i < known; i++)
      copy(i - 1, i);
    atomic_store_explicit(&count, known - 1, memory_order_relaxed);
  }
  end_change();
}

void fikit_device_memory_context_gone(CUcontext context) {
  unsigned kept = 0;
  if (!begin_change())
    return;
  for (unsigned i = 0; i < atomic_load_explicit(&count, memory_order_relaxed); i++)
    if (ranges[i].context != context)
      copy(kept++, i);
  atomic_store_explicit(&count, kept, memory_order_relaxed);
  end_change();
}

bool fikit_device_memory_has(uint64_t address) {
  for (int i = 0; i < TRIES; i++) {
    const unsigned seen = atomic_load_explicit(&version, memory_order_acquire);
    const unsigned at = up_to(address);
    const bool has = at > 0 && address - base_of(at - 1) < atomic_load_explicit(&ranges[at - 1].bytes, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (seen % 2 == 0 && atomic_load_explicit(&version, memory_order_relaxed) == seen)
      return has;
  }
  return false;
}

void fikit_device_memory_forget_all(void) {
  atomic_store(&count, 0);
  atomic_store(&version, 0);
}
