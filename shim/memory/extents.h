/* Where the larger pieces of a program's GPU memory are, and by which numbers runs of the program after this one know them: for
 * jobs of which fikitd learns what each kernel touches. For other jobs nothing here does anything. */
#ifndef FIKIT_SHIM_EXTENTS_H
#define FIKIT_SHIM_EXTENTS_H

#include "base/device.h"

/* What a word of memory points to. */
struct fikit_touch {
  uint32_t number; /* of the allocation */
  uint32_t page;   /* of FIKIT_TOUCH_PAGE_BYTES, from the allocation's begin */
  uint32_t pages;  /* of the whole allocation */
};

/* The driver gave `bytes` at `base`. The number is the lowest that no other memory has, of those that memory of this size had before,
 * else a new one: a program that allocates in the same order has the same numbers in every run, and in every iteration. */
void fikit_extent_add(struct fikit_device *device, CUcontext context, uint64_t base, uint64_t bytes);

/* Before the driver frees it. */
void fikit_extent_remove(uint64_t base);

/* What is at the addresses of these words, on this GPU, each place once: how many, `most` at most. Words that are no address in
 * the table say nothing. */
unsigned fikit_extents_of(const struct fikit_device *device, const uint64_t *words, unsigned count, struct fikit_touch *touches,
                          unsigned most);

/* Is there anything to be found? Needs no lock. */
bool fikit_extents_any(void);

void fikit_extents_context_gone(CUcontext context);

/* In the child of a fork. */
void fikit_extents_forget_all(void);

#endif
