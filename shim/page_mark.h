/* Marks that the GPU itself writes into our page when it comes to them: fikitd sees how far the work is without our help,
 * also while the program computes on the host. Only where the device can write host memory from a stream. */
#ifndef FIKIT_SHIM_PAGE_MARK_H
#define FIKIT_SHIM_PAGE_MARK_H

#include "stream.h"

struct fikit_page_marks *fikit_page_marks_new(void);

/* A few launches after a mark, the end of the work is still well reckoned. */
enum { FIKIT_FEW_LAUNCHES = 4 };

static inline bool fikit_page_bit(const _Atomic uint32_t *bits, uint32_t slot) {
  return atomic_load_explicit(&bits[slot / 32], memory_order_relaxed) >> slot % 32 & 1;
}

/* Has fikitd asked for a mark behind this launch? `seq`: its launch_seq, 0 = the driver refused it. It asks only while
 * somebody with a lower priority shares the GPU. */
static inline bool fikit_page_mark_wanted(const struct fikit_device *device, uint32_t slot, uint64_t seq) {
  const struct fikit_page *page = device->page;
  uint32_t every = atomic_load_explicit(&page->mark_every, memory_order_relaxed);
  if (__builtin_expect(every == 0, 1) || seq == 0)
    return false;
  uint64_t launches = seq - atomic_load_explicit(&device->marked, memory_order_relaxed);
  return launches >= every || (launches >= FIKIT_FEW_LAUNCHES && fikit_page_bit(page->gap_slots, slot)) ||
         !fikit_page_bit(page->known_slots, slot);
}

/* Put a mark behind the work of `stream` (`entry` in our table) and announce it: ENTRY_MARK. Not while any stream captures,
 * nor when it would say nothing because other streams may still be working. */
void fikit_page_mark_progress(struct fikit_device *device, struct fikit_stream *entry, CUstream stream);

/* The same for the granted launch `request_seq`: ENTRY_MARK_GRANT. False: there is no mark. */
bool fikit_page_mark_grant(struct fikit_device *device, struct fikit_stream *entry, CUstream stream,
                           uint32_t request_seq);

/* The context is gone, and with it its work and what was registered in it. */
void fikit_page_marks_forget_context(struct fikit_device *device, CUcontext context);

#endif
