/* From which launch on launches are looked at, to time them or to carry out a step of a plan. Each of the two has a word of its own; the
 * launch path reads only the lower of them, look_from. */
#ifndef FIKIT_SHIM_LOOK_H
#define FIKIT_SHIM_LOOK_H

#include "base/device.h"

#define FIKIT_LOOK_NEVER UINT64_MAX

static inline bool fikit_look_is_from(const struct fikit_device *device, const _Atomic uint64_t *from) {
  return atomic_load_explicit(&device->page->launch_seq, memory_order_relaxed) >= atomic_load_explicit(from, memory_order_relaxed);
}

/* Is the launch that begins now to be looked at? */
static inline bool fikit_look_due(const struct fikit_device *device) {
  return fikit_look_is_from(device, &device->look_from);
}

static inline uint64_t fikit_look_least(const struct fikit_device *device) {
  const uint64_t sample = atomic_load(&device->sample_from), plan = atomic_load(&device->plan_from);
  return sample < plan ? sample : plan;
}

/* Set `word`, one of the two. Two threads may set one each at the same time: the one that writes look_from last has read both words. */
static inline void fikit_look_set(struct fikit_device *device, _Atomic uint64_t *word, uint64_t from) {
  uint64_t least;
  atomic_store(word, from);
  do {
    least = fikit_look_least(device);
    atomic_store(&device->look_from, least);
  } while (least != fikit_look_least(device));
}

#endif
