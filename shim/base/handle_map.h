/* Map from a driver handle to a word. Readers take no lock (they are on the launch path); writers are rare. */
#ifndef FIKIT_SHIM_HANDLE_MAP_H
#define FIKIT_SHIM_HANDLE_MAP_H

#include "base/lock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct handle_entry {
  _Atomic uintptr_t key; /* 0: free, 1: erased (no driver handle has these values) */
  _Atomic uintptr_t value;
  uintptr_t owner; /* the module or library with which it is erased; 0: it is erased by its key only */
};

struct handle_table {
  size_t mask;
  struct handle_entry entries[];
};

struct handle_map {
  _Atomic(struct handle_table *) table;
  pthread_mutex_t writing;
  size_t used; /* entries that are not free, erased ones too */
};

#define HANDLE_MAP_EMPTY {.writing = PTHREAD_MUTEX_INITIALIZER}

/* Define an empty map; `static HANDLE_MAP(x);` for one of the file's own. */
#define HANDLE_MAP(name)                     \
  struct handle_map name = HANDLE_MAP_EMPTY; \
  FIKIT_LOCK_IN_CHILD(name, &(name).writing)

static inline size_t handle_hash(uintptr_t key) {
  uint64_t mixed = (uint64_t)key * UINT64_C(0x9e3779b97f4a7c15);
  return (size_t)(mixed >> 20);
}

/* The value of `key`, 0 when unknown. */
static inline uintptr_t handle_map_get(struct handle_map *map, uintptr_t key) {
  struct handle_table *table = atomic_load_explicit(&map->table, memory_order_acquire);
  if (!table)
    return 0;
  for (size_t i = handle_hash(key);; i++) {
    struct handle_entry *entry = &table->entries[i & table->mask];
    uintptr_t found = atomic_load_explicit(&entry->key, memory_order_acquire);
    if (found == key)
      return atomic_load_explicit(&entry->value, memory_order_acquire); /* acquire: what the value points to is read too */
    if (found == 0)
      return 0;
  }
}

/* Set key -> value; a known key gets the new value. False: out of memory, and nothing has changed. */
bool handle_map_put(struct handle_map *map, uintptr_t key, uintptr_t value, uintptr_t owner);

/* Forget `key` / everything that belongs to `owner`. */
void handle_map_erase(struct handle_map *map, uintptr_t key);
void handle_map_erase_owner(struct handle_map *map, uintptr_t owner);

/* Forget `key` and return its value, 0 when unknown: of two threads that take it, one gets it. */
uintptr_t handle_map_take(struct handle_map *map, uintptr_t key);

/* Forget what belongs to `owner`, and `visit` each value, which may not come back to this map. */
void handle_map_take_owner(struct handle_map *map, uintptr_t owner, void (*visit)(uintptr_t value));

/* In the child of a fork, after fikit_locks_free_all(): forget everything, also if the fork came in the middle of a change. */
void handle_map_forget_all(struct handle_map *map);

#endif
