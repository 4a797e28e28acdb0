/* Writing to our own page (fikit_protocol.h). All but the requests is on the launch path. What each order of a store is for:
 * docs/design/contracts.md, "Memory order of the shared pages". */
#ifndef FIKIT_SHIM_PAGE_H
#define FIKIT_SHIM_PAGE_H

#include "fikit_rules.h"

static inline void fikit_page_put(struct fikit_page *page, enum fikit_entry_kind kind, uint32_t slot, uint64_t value,
                                  int64_t t_ns) {
  uint64_t i = atomic_fetch_add_explicit(&page->ring_head, 1, memory_order_relaxed);
  struct fikit_entry *entry = &page->ring[i % FIKIT_RING_ENTRIES];
  atomic_store_explicit(&entry->stamp, 0, memory_order_relaxed);
  atomic_thread_fence(memory_order_release); /* a reader that sees a new field also sees the stamp gone */
  __atomic_store_n(&entry->t_ns, t_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&entry->slot, slot, __ATOMIC_RELAXED);
  __atomic_store_n(&entry->kind, kind, __ATOMIC_RELAXED);
  __atomic_store_n(&entry->value, value, __ATOMIC_RELAXED);
  atomic_store_explicit(&entry->stamp, i + 1, memory_order_release);
}

/* Count one launch that the driver accepted; returns its launch_seq, which is also the entry's `value` unless it was
 * granted: then that is its request_seq. */
static inline uint64_t fikit_page_count(struct fikit_page *page, enum fikit_entry_kind kind, uint32_t slot,
                                    uint32_t request_seq, int64_t t_ns) {
  atomic_fetch_add_explicit(&page->slot_launches[slot], 1, memory_order_relaxed);
  if (atomic_load_explicit(&page->first_launch_ns, memory_order_relaxed) == 0) {
    int64_t none = 0;
    atomic_compare_exchange_strong(&page->first_launch_ns, &none, t_ns);
  }
  uint64_t seq = atomic_fetch_add_explicit(&page->launch_seq, 1, memory_order_release) + 1;
  fikit_page_put(page, kind, slot, fikit_launch_value(kind, request_seq, seq), t_ns);
  return seq;
}

/* Stand at the closed gate; returns the request's number. The request before was withdrawn: the fence lets nobody who sees a field
 * of this one believe that that one still stands. `waiting` is written last; the doorbell comes after it. */
static inline uint32_t fikit_page_post(struct fikit_page *page, uint32_t slot, enum fikit_copy copy, uint64_t bytes, int64_t now_ns) {
  uint32_t seq = fikit_next_request(atomic_load_explicit(&page->request_seq, memory_order_relaxed));
  atomic_thread_fence(memory_order_release);
  atomic_store_explicit(&page->request_slot, slot, memory_order_relaxed);
  atomic_store_explicit(&page->request_copy, copy, memory_order_relaxed);
  atomic_store_explicit(&page->request_bytes, bytes, memory_order_relaxed);
  atomic_store_explicit(&page->request_ns, now_ns, memory_order_relaxed);
  atomic_store_explicit(&page->request_seq, seq, memory_order_relaxed);
  atomic_store_explicit(&page->waiting, 1, memory_order_release);
  return seq;
}

/* Has the dispatcher to be rung for? Either it sees what this thread has written into the page, or this thread sees that it is
 * asleep: the dispatcher has the same fence between `awake` and its last look. */
static inline bool fikit_page_needs_bell(const struct fikit_page *page) {
  atomic_thread_fence(memory_order_seq_cst);
  return atomic_load_explicit(&page->awake, memory_order_relaxed) == 0;
}

static inline void fikit_page_withdraw(struct fikit_page *page) {
  atomic_store_explicit(&page->waiting, 0, memory_order_release);
}

/* Which launches came last, as SAMPLE and GAP say it: read off our own ring, so that no launch has to keep it up. */
static inline uint64_t fikit_page_before(const struct fikit_page *page) {
  uint64_t head = atomic_load_explicit(&page->ring_head, memory_order_relaxed);
  uint64_t before = 0;
  unsigned found = 0;
  for (uint64_t i = head; i > 0 && i + FIKIT_RING_ENTRIES > head && found < FIKIT_BEFORE_LAUNCHES; i--) {
    const struct fikit_entry *entry = &page->ring[(i - 1) % FIKIT_RING_ENTRIES];
    if (atomic_load_explicit(&entry->stamp, memory_order_acquire) != i)
      continue; /* another thread is writing it */
    uint32_t kind = __atomic_load_n(&entry->kind, __ATOMIC_RELAXED);
    uint32_t slot = __atomic_load_n(&entry->slot, __ATOMIC_RELAXED);
    if (kind == FIKIT_ENTRY_LAUNCH || kind == FIKIT_ENTRY_GRANTED || kind == FIKIT_ENTRY_EXPIRED)
      before |= (uint64_t)slot << FIKIT_BEFORE_BITS * found++;
  }
  return before;
}

#endif
