#include "base/handle_map.h"

#include <stdlib.h>

enum { ERASED = 1, FIRST_SIZE = 1024 };

/* The key is not in the table, so an erased entry will do. Returns how many free entries it took: 0 or 1. */
static size_t insert(struct handle_table *table, uintptr_t key, uintptr_t value, uintptr_t owner) {
  size_t i = handle_hash(key);
  while (atomic_load_explicit(&table->entries[i & table->mask].key, memory_order_relaxed) > ERASED)
    i++;
  struct handle_entry *entry = &table->entries[i & table->mask];
  size_t taken = atomic_load_explicit(&entry->key, memory_order_relaxed) == 0;
  atomic_store_explicit(&entry->value, value, memory_order_release); /* a reader that looks for the entry's previous key may be here */
  entry->owner = owner;
  atomic_store_explicit(&entry->key, key, memory_order_release);
  return taken;
}

/* Make room for one more. Old tables are never freed, since a reader may still be in one. Sizes double, so that all old tables together
 * are smaller than the current one. Erased entries are not copied. */
static struct handle_table *with_room(struct handle_map *map) {
  struct handle_table *old = atomic_load_explicit(&map->table, memory_order_relaxed);
  if (old && map->used < (old->mask + 1) / 2)
    return old;
  size_t size = old ? 2 * (old->mask + 1) : FIRST_SIZE;
  struct handle_table *new = calloc(1, sizeof *new + size * sizeof new->entries[0]);
  if (!new)
    return NULL;
  new->mask = size - 1;
  size_t used = 0;
  for (size_t i = 0; old && i <= old->mask; i++) {
    struct handle_entry *entry = &old->entries[i];
    if (entry->key > ERASED)
      used += insert(new, entry->key, entry->value, entry->owner);
  }
  atomic_store_explicit(&map->table, new, memory_order_release);
  map->used = used; /* last: the child of a fork that comes in between counts too many, not too few */
  return new;
}

static struct handle_entry *find(struct handle_map *map, uintptr_t key) {
  struct handle_table *table = atomic_load_explicit(&map->table, memory_order_relaxed);
  for (size_t i = handle_hash(key); table; i++) {
    struct handle_entry *entry = &table->entries[i & table->mask];
    if (entry->key == key)
      return entry;
    if (entry->key == 0)
      break;
  }
  return NULL;
}

bool handle_map_put(struct handle_map *map, uintptr_t key, uintptr_t value, uintptr_t owner) {
  bool done = true;
  if (key <= ERASED || !fikit_lock(&map->writing))
    return false;
  struct handle_entry *entry = find(map, key);
  if (entry) {
    atomic_store_explicit(&entry->value, value, memory_order_release);
    entry->owner = owner;
  } else {
    struct handle_table *table = with_room(map);
    if (table)
      map->used += insert(table, key, value, owner);
    done = table != NULL;
  }
  fikit_unlock(&map->writing);
  return done;
}

/* An erased entry must not end the search for keys behind it. Where the next entry is free there are none: the entry becomes free, and so do
 * erased ones right before it. */
static void erase(struct handle_map *map, struct handle_table *table, size_t i) {
  atomic_store_explicit(&table->entries[i].key, ERASED, memory_order_release);
  while (atomic_load_explicit(&table->entries[i].key, memory_order_relaxed) == ERASED &&
         atomic_load_explicit(&table->entries[(i + 1) & table->mask].key, memory_order_relaxed) == 0) {
    atomic_store_explicit(&table->entries[i].key, 0, memory_order_release);
    map->used--;
    i = (i - 1) & table->mask;
  }
}

uintptr_t handle_map_take(struct handle_map *map, uintptr_t key) {
  uintptr_t value = 0;
  if (!atomic_load_explicit(&map->table, memory_order_acquire) || !fikit_lock(&map->writing))
    return 0;
  struct handle_entry *entry = key > ERASED ? find(map, key) : NULL;
  struct handle_table *table = atomic_load_explicit(&map->table, memory_order_relaxed);
  if (entry) {
    value = atomic_load_explicit(&entry->value, memory_order_relaxed);
    erase(map, table, (size_t)(entry - table->entries));
  }
  fikit_unlock(&map->writing);
  return value;
}

void handle_map_erase(struct handle_map *map, uintptr_t key) {
  handle_map_take(map, key);
}

void handle_map_take_owner(struct handle_map *map, uintptr_t owner, void (*visit)(uintptr_t value)) {
  if (!fikit_lock(&map->writing))
    return;
  struct handle_table *table = atomic_load_explicit(&map->table, memory_order_relaxed);
  for (size_t i = 0; table && owner && i <= table->mask; i++)
    if (table->entries[i].key > ERASED && table->entries[i].owner == owner) {
      visit(atomic_load_explicit(&table->entries[i].value, memory_order_relaxed));
      erase(map, table, i);
    }
  fikit_unlock(&map->writing);
}

static void ignore(uintptr_t value) {
  (void)value;
}

void handle_map_erase_owner(struct handle_map *map, uintptr_t owner) {
  handle_map_take_owner(map, owner, ignore);
}

/* The old table is left as it is: a writer of the parent may have been in the middle of a change. */
void handle_map_forget_all(struct handle_map *map) {
  atomic_store_explicit(&map->table, NULL, memory_order_relaxed);
  map->used = 0;
}
