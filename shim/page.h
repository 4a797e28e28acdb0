/* Writing to our own page (fikit_protocol.h). Everything here is on the launch path. */
#ifndef FIKIT_SHIM_PAGE_H
#define FIKIT_SHIM_PAGE_H

#include "fikit_protocol.h"

static inline void fikit_page_put(struct fikit_page *page, enum fikit_entry_kind kind, uint32_t slot, uint64_t value,
                                  int64_t t_ns) {
  uint64_t i = atomic_fetch_add_explicit(&page->ring_head, 1, memory_order_relaxed);
  struct fikit_entry *entry = &page->ring[i % FIKIT_RING_ENTRIES];
  atomic_store_explicit(&entry->stamp, 0, memory_order_relaxed);
  atomic_thread_fence(memory_order_release); /* a reader that sees a new field also sees the stamp gone */
  entry->t_ns = t_ns;
  entry->slot = slot;
  entry->kind = kind;
  entry->value = value;
  atomic_store_explicit(&entry->stamp, i + 1, memory_order_release);
}

/* Count one launch that the driver accepted. `value` of a GRANTED entry is its request_seq, of the others launch_seq. */
static inline void fikit_page_count(struct fikit_page *page, enum fikit_entry_kind kind, uint32_t slot,
                                    uint32_t request_seq, int64_t t_ns) {
  atomic_fetch_add_explicit(&page->slot_launches[slot], 1, memory_order_relaxed);
  if (atomic_load_explicit(&page->first_launch_ns, memory_order_relaxed) == 0) {
    int64_t none = 0;
    atomic_compare_exchange_strong(&page->first_launch_ns, &none, t_ns);
  }
  uint64_t seq = atomic_fetch_add_explicit(&page->launch_seq, 1, memory_order_release) + 1;
  fikit_page_put(page, kind, slot, kind == FIKIT_ENTRY_GRANTED ? request_seq : seq, t_ns);
}

#endif
