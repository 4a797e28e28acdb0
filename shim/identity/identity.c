#include "identity/identity.h"
#include "identity/collective.h"
#include "identity/graph.h"
#include "timing/measure.h"
#include "base/symbols.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { MOST_GRAPHS = 2 * FIKIT_SLOTS };
/* Programs that tune or compile launch thousands of kernels once, before the kernels of their real work. So the last quarter of the slots is for
 * kernels that were launched before, and the last sixteenth for those that were launched often. */
enum { FOR_ANY = FIKIT_SLOTS / 4 * 3, FOR_SECOND = FIKIT_SLOTS / 16 * 15, OFTEN = 8 };
enum { COUNT_BITS = 4, COUNT = (1 << COUNT_BITS) - 1 }; /* a sighting: a part of the key above how often it was seen */

HANDLE_MAP(fikit_names);
static HANDLE_MAP(records); /* key of name and module -> the record */

static uint64_t key_of(const char *name, uint64_t module_hash) {
  uint64_t key = fikit_mix(UINT64_C(0xcbf29ce484222325), module_hash);
  for (const char *c = name; *c; c++)
    key = fikit_mix(key, (unsigned char)*c);
  return key | 2; /* not one of the map's own values */
}

static const struct fikit_name *record_of(const char *name, uint64_t module_hash, bool exclusive) {
  const uint64_t key = key_of(name, module_hash);
  struct fikit_name *record = (void *)handle_map_get(&records, (uintptr_t)key);
  if (record)
    return record;
  const size_t bytes = strlen(name) + 1;
  record = malloc(sizeof *record + bytes);
  if (record) {
    record->key = key;
    record->module_hash = module_hash;
    record->exclusive = exclusive;
    record->unnamed = false;
    memcpy(record->name, name, bytes);
    handle_map_put(&records, (uintptr_t)key, (uintptr_t)record, 0);
  }
  return record;
}

const struct fikit_name *fikit_name_of(const char *name, uint64_t module_hash) {
  return record_of(name, module_hash, fikit_is_collective(name));
}

const struct fikit_name *fikit_graph_name_of(const char *name, uint64_t structure, bool exclusive) {
  static _Atomic unsigned graphs;
  if (!handle_map_get(&records, (uintptr_t)key_of(name, structure)) &&
      atomic_fetch_add_explicit(&graphs, 1, memory_order_relaxed) >= MOST_GRAPHS)
    return NULL;
  return record_of(name, structure, exclusive);
}

const struct fikit_name *fikit_name_unknown(uintptr_t handle) {
  static _Atomic unsigned order;
  char name[32];
  const struct fikit_name *graph = fikit_graph_rename(handle);
  if (graph)
    return graph;
  snprintf(name, sizeof name, "unknown-%u", atomic_fetch_add(&order, 1) + 1);
  struct fikit_name *record = (void *)fikit_name_of(name, 0);
  if (record)
    record->unnamed = true;
  handle_map_put(&fikit_names, handle, (uintptr_t)record, 0);
  return record;
}

static void describe(struct fikit_kernel *message, uint32_t slot, const struct fikit_description *what) {
  const struct fikit_name *name = what->name;
  *message = (struct fikit_kernel){.head = {FIKIT_MSG_KERNEL, sizeof *message},
                                   .slot = slot,
                                   .kind = name->exclusive ? FIKIT_KIND_COOPERATIVE : what->shape.kind,
                                   .module_hash = name->module_hash,
                                   .shared_bytes = what->shape.shared_bytes};
  memcpy(message->grid, what->shape.grid, sizeof message->grid);
  memcpy(message->block, what->shape.block, sizeof message->block);
  snprintf(message->name, sizeof message->name, "%s", name->name);
}

/* Under `describing`. Never blocks: a description for which the socket has no room is sent at the next new kernel or host synchronisation. */
static void send_pending(struct fikit_device *device) {
  if (!fikit_descriptors_ours(device))
    return;
  while (device->described < device->slots) {
    struct fikit_kernel message;
    describe(&message, device->described, &device->descriptions[device->described]);
    ssize_t sent = send(device->socket, &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS))
      return;
    /* After any other error there is no reader. */
    __atomic_store_n(&device->described, device->described + 1, __ATOMIC_RELAXED);
  }
}

void fikit_identity_send(struct fikit_device *device) {
  if (__atomic_load_n(&device->described, __ATOMIC_RELAXED) == __atomic_load_n(&device->slots, __ATOMIC_RELAXED))
    return;
  int saved = errno;
  if (!fikit_lock(&device->describing))
    return;
  send_pending(device);
  fikit_unlock(&device->describing);
  errno = saved;
}

/* Under `describing`: the bucket that holds `key` or is free for it. There are twice as many buckets as slots, so one is always free. */
static struct fikit_identity *bucket_of(struct fikit_device *device, uint64_t key) {
  for (uint64_t i = key >> 32;; i++) {
    struct fikit_identity *bucket = &device->identities[i % FIKIT_IDENTITY_BUCKETS];
    uint64_t found = atomic_load_explicit(&bucket->key, memory_order_relaxed);
    if (found == key || found == 0)
      return bucket;
  }
}

/* How often the kernel has been launched without a slot, this launch included. A kernel has two possible places; if other kernels have both, it
 * takes one of them at random, so that two kernels in turn do not erase each other every time. Without the lock: a sighting that another
 * thread overwrites is lost. */
static unsigned sighted(struct fikit_device *device, uint64_t key) {
  _Atomic uint16_t *places[] = {&device->sightings[(key >> 8) % FIKIT_SIGHTINGS], &device->sightings[(key >> 24) % FIKIT_SIGHTINGS]};
  const uint16_t whose = (uint16_t)(key >> 48 << COUNT_BITS);
  const uint16_t first = atomic_load_explicit(places[0], memory_order_relaxed);
  const uint16_t other = atomic_load_explicit(places[1], memory_order_relaxed);
  const uint64_t chance = fikit_mix(key, atomic_load_explicit(&device->page->launch_seq, memory_order_relaxed)) >> 63;
  const bool at_other = (first & ~COUNT) != whose && ((other & ~COUNT) == whose || chance);
  const uint16_t seen = at_other ? other : first;
  const unsigned times = (seen & ~COUNT) != whose ? 1 : (seen & COUNT) < OFTEN ? (seen & COUNT) + 1 : OFTEN;
  atomic_store_explicit(places[at_other], (uint16_t)(whose | times), memory_order_relaxed);
  return times;
}

static bool has_a_claim(struct fikit_device *device, uint64_t key) {
  const uint32_t slots = __atomic_load_n(&device->slots, __ATOMIC_RELAXED);
  return slots < FOR_ANY || sighted(device, key) >= (slots < FOR_SECOND ? 2 : OFTEN);
}

uint32_t fikit_identity_new(struct fikit_device *device, uint64_t key, const struct fikit_name *name,
                            const struct fikit_shape *shape) {
  int saved = errno;
  if (__atomic_load_n(&device->slots, __ATOMIC_RELAXED) == FIKIT_SLOTS || !has_a_claim(device, key) ||
      !fikit_lock(&device->describing))
    return 0;
  struct fikit_identity *bucket = bucket_of(device, key);
  uint32_t slot = bucket->slot; /* another thread may have been first */
  if (atomic_load_explicit(&bucket->key, memory_order_relaxed) == 0 && device->slots < FIKIT_SLOTS) {
    slot = device->slots;
    device->descriptions[slot] = (struct fikit_description){name, *shape};
    __atomic_store_n(&device->slots, slot + 1, __ATOMIC_RELAXED);
    bucket->slot = slot;
    atomic_store_explicit(&bucket->key, key, memory_order_release);
    send_pending(device);
    fikit_measure_first(device);
  }
  fikit_unlock(&device->describing);
  errno = saved;
  return slot;
}
