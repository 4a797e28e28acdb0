/* Programmatic dependent launch: a kernel that may begin before the one in front of it in its stream has ended. An event or mark
 * between the two makes it begin late. So none is put there once fikitd knows how long the kernel runs; until then it is timed, and
 * loses its overlap for as long. --fikit-measure times every launch, these too. */
#ifndef FIKIT_SHIM_DEPENDENT_H
#define FIKIT_SHIM_DEPENDENT_H

#include "base/device.h"
#include "base/page.h"

/* A dependent launch is about to come behind this process's newest one: that one's slot is remembered. */
static inline void fikit_dependent_comes(struct fikit_device *device) {
  const uint32_t slot = fikit_page_before(device->page) & (FIKIT_SLOTS - 1);
  _Atomic uint32_t *word = &device->before_dependent[slot / 32];
  const uint32_t bit = UINT32_C(1) << slot % 32;
  if (!(atomic_load_explicit(word, memory_order_relaxed) & bit))
    atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
}

/* Does what is put around a launch of this slot have to stay away? */
static inline bool fikit_keeps_overlap(const struct fikit_device *device, uint32_t slot, bool dependent) {
  return (dependent || fikit_slot_bit(device->before_dependent, slot)) && fikit_slot_bit(device->page->known_slots, slot) &&
         !device->page->measure;
}

#endif
