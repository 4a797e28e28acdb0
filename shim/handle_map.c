#include "handle_map.h"

#include <stdbool.h>
#include <stdlib.h>

enum { ERASED = 1, FIRST_SIZE = 1024 };

static void insert(struct handle_table *table, uintptr_t key, uintptr_t value, uintptr_t owner) {
  size_t i = handle_hash(key);
  while (atomic_load_explicit(&table->entries[i & table->mask].key, memory_order_relaxed) != 0)
    i++;
  struct handle_entry *entry = &table->entries[i & table->mask];
  atomic_store_explicit(&entry->value, value, memory_order_relaxed);
  entry->owner = owner;
  atomic_store_explicit(&entry->key, key, memory_order_release);
}

/* Make room for one more. A reader may still be in the old table, which is therefore never freed: sizes double, so all
 * old tables together are smaller than the current one. Erased entries are left behind when the table is copied. */
static struct handle_table *with_room(struct handle_map *map) {
  struct handle_table *old = atomic_load_explicit(&map->table, memory_order_relaxed);
  if (old && map->used < (old->mask + 1) / 2)
    return old;
  size_t size = old ? 2 * (old->mask + 1) : FIRST_SIZE;
  struct handle_table *new = calloc(1, sizeof *new + size * sizeof new->entries[0]);
  if (!new)
    return NULL;
  new->mask = size - 1;
  map->used = 0;
  for (size_t i = 0; old && i <= old->mask; i++) {
    struct handle_entry *entry = &old->entries[i];
    if (entry->key > ERASED) {
      insert(new, entry->key, entry->value, entry->owner);
      map->used++;
    }
  }
  atomic_store_explicit(&map->table, new, memory_order_release);
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

void handle_map_put(struct handle_map *map, uintptr_t key, uintptr_t value, uintptr_t owner) {
  if (key <= ERASED)
    return;
  pthread_mutex_lock(&map->writing);
  struct handle_entry *entry = find(map, key);
  if (entry) {
    atomic_store_explicit(&entry->value, value, memory_order_relaxed);
    entry->owner = owner;
  } else {
    struct handle_table *table = with_room(map);
    if (table) {
      insert(table, key, value, owner);
      map->used++;
    }
  }
  pthread_mutex_unlock(&map->writing);
}

void handle_map_erase(struct handle_map *map, uintptr_t key) {
  pthread_mutex_lock(&map->writing);
  struct handle_entry *entry = key > ERASED ? find(map, key) : NULL;
  if (entry)
    atomic_store_explicit(&entry->key, ERASED, memory_order_release);
  pthread_mutex_unlock(&map->writing);
}

void handle_map_erase_owner(struct handle_map *map, uintptr_t owner) {
  pthread_mutex_lock(&map->writing);
  struct handle_table *table = atomic_load_explicit(&map->table, memory_order_relaxed);
  for (size_t i = 0; table && owner && i <= table->mask; i++)
    if (table->entries[i].key > ERASED && table->entries[i].owner == owner)
      atomic_store_explicit(&table->entries[i].key, ERASED, memory_order_release);
  pthread_mutex_unlock(&map->writing);
}
