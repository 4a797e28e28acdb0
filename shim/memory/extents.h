/* Where the larger pieces of a program's GPU memory are, and by which numbers runs of the program after this one know them: for
 * jobs of which fikitd learns what each kernel touches. For other jobs nothing here does anything. */
#ifndef FIKIT_SHIM_EXTENTS_H
#define FIKIT_SHIM_EXTENTS_H

#include "base/device.h"
#include "memory/places.h"

/* The driver gave `bytes` at `base`. The number is the lowest that no other memory has, of those that memory of this size had before,
 * else a new one: a program that allocates in the same order has the same numbers in every run, and in every iteration. */
void fikit_extent_add(struct fikit_device *device, CUcontext context, uint64_t base, uint64_t bytes);

/* Before the driver frees it. */
void fikit_extent_remove(uint64_t base);

/* Adds to the `found` places in `touches` what memory on this GPU these words point to, or these ranges lie in, each place once. Words that are no address in the
 * table add nothing. Returns how many places there are then, `most` at most. */
unsigned fikit_extents_of(const struct fikit_device *device, const uint64_t *words, unsigned count, struct fikit_touch *touches,
                          unsigned found, unsigned most);
unsigned fikit_extents_of_ranges(const struct fikit_device *device, const struct fikit_range *ranges, unsigned count,
                                 struct fikit_touch *touches, unsigned found, unsigned most);

/* Keep those of the words that are addresses in the table: how many. */
unsigned fikit_extents_known(uint64_t *words, unsigned count);

/* Does memory in the table begin at this address? */
bool fikit_extent_begins(uint64_t address);

/* Where the memory with this number begins; 0: there is none now. */
uint64_t fikit_extent_base(const struct fikit_device *device, uint32_t number);

/* Is there anything to be found? Needs no lock. */
extern _Atomic bool fikit_extents_there;
static inline bool fikit_extents_any(void) {
  return atomic_load_explicit(&fikit_extents_there, memory_order_relaxed);
}

void fikit_extents_context_gone(CUcontext context);

/* In the child of a fork. */
void fikit_extents_forget_all(void);

#endif
