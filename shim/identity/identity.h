/* Which kernel a launch runs: handle -> name and module (per process), name and shape -> slot of the page (per device). */
#ifndef FIKIT_SHIM_IDENTITY_H
#define FIKIT_SHIM_IDENTITY_H

#include "base/device.h"
#include "base/handle_map.h"

/* A function's name and module, or a graph's structure. Never freed: launches read it without a lock, and the same
 * name in the same module is the same record. */
struct fikit_name {
  uint64_t key; /* of name and module_hash */
  uint64_t module_hash;
  bool unnamed;   /* no hooked call returned the handle: its kind is not known */
  bool exclusive; /* a collective kernel, which never fills another job's gap (kind COOPERATIVE) */
  char name[];
};

/* The parts of a launch that belong to the kernel's identity (docs/design/prediction.md). */
struct fikit_shape {
  unsigned grid[3], block[3], shared_bytes;
  enum fikit_kernel_kind kind;
  bool dependent; /* a programmatic dependent launch (dependent.h); no part of the identity */
};

/* What fikitd is told of a slot. */
struct fikit_description {
  const struct fikit_name *name;
  struct fikit_shape shape;
};

extern struct handle_map fikit_names; /* CUfunction, CUkernel or CUgraphExec -> struct fikit_name */

/* The one record of (name, module_hash); NULL without memory. */
const struct fikit_name *fikit_name_of(const char *name, uint64_t module_hash);

/* The same for a graph; NULL also beyond a bound, which only programs reach that change their graphs without end. */
const struct fikit_name *fikit_graph_name_of(const char *name, uint64_t structure, bool exclusive);

/* Name of a handle that has none: of an executable graph that was changed; else, for a handle that no hooked call returned, a number in the order
 * of appearance. */
const struct fikit_name *fikit_name_unknown(uintptr_t handle);

/* The handle is a library's CUkernel, and no CUfunction. */
bool fikit_is_kernel_of_library(uintptr_t handle);

/* Give an identity a slot, and describe it to fikitd. 0: the page is full, or so full that only kernels that were launched before get one. */
uint32_t fikit_identity_new(struct fikit_device *device, uint64_t key, const struct fikit_name *name,
                            const struct fikit_shape *shape);

/* Send the descriptions that the socket had no room for. */
void fikit_identity_send(struct fikit_device *device);

static inline uint64_t fikit_mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 29;
}

/* Slot of a launch. Identities are compared by their 64-bit keys: among 4095 kernels two are equal with a probability below 1e-12. */
static inline uint32_t fikit_identity_slot(struct fikit_device *device, uintptr_t handle,
                                           const struct fikit_shape *shape) {
  const struct fikit_name *name = (const void *)handle_map_get(&fikit_names, handle);
  if (__builtin_expect(!name, 0) && !(name = fikit_name_unknown(handle)))
    return 0;
  uint64_t key = fikit_mix(name->key, shape->grid[0] | (uint64_t)shape->grid[1] << 32);
  key = fikit_mix(key, shape->grid[2] | (uint64_t)shape->block[0] << 32);
  key = fikit_mix(key, shape->block[1] | (uint64_t)shape->block[2] << 32);
  key = fikit_mix(key, shape->shared_bytes | (uint64_t)shape->kind << 32) | 1;
  for (uint64_t i = key >> 32, end = i + FIKIT_IDENTITY_BUCKETS; i != end; i++) {
    struct fikit_identity *bucket = &device->identities[i % FIKIT_IDENTITY_BUCKETS];
    uint64_t found = atomic_load_explicit(&bucket->key, memory_order_acquire);
    if (__builtin_expect(found == key, 1))
      return bucket->slot;
    if (found == 0)
      break;
  }
  return fikit_identity_new(device, key, name, shape);
}

#endif
