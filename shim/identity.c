#include "identity.h"
#include "symbols.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { MOST_GRAPHS = 2 * FIKIT_SLOTS };

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
    memcpy(record->name, name, bytes);
    handle_map_put(&records, (uintptr_t)key, (uintptr_t)record, 0);
  }
  return record;
}

/* NCCL's kernels spin until their peers on other GPUs run too. Older versions' names are mangled. */
static bool is_collective(const char *name) {
  return strncmp(name, "nccl", 4) == 0 || strstr(name, "ncclDevKernel") || strstr(name, "ncclKernel");
}

const struct fikit_name *fikit_name_of(const char *name, uint64_t module_hash) {
  return record_of(name, module_hash, is_collective(name));
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
  snprintf(name, sizeof name, "unknown-%u", atomic_fetch_add(&order, 1) + 1);
  const struct fikit_name *record = fikit_name_of(name, 0);
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

/* Under `describing`. Never blocks: what finds no room waits for the next new kernel or host synchronisation. */
static void send_pending(struct fikit_device *device) {
  if (!fikit_descriptors_ours(device))
    return;
  while (device->described < device->slots) {
    struct fikit_kernel message;
    describe(&message, device->described, &device->descriptions[device->described]);
    ssize_t sent = send(device->socket, &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS))
      return;
    /* After any other error nobody is left to read it. */
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

/* Under `describing`: the bucket that holds `key` or is free for it. There is always a free one: twice the slots. */
static struct fikit_identity *bucket_of(struct fikit_device *device, uint64_t key) {
  for (uint64_t i = key >> 32;; i++) {
    struct fikit_identity *bucket = &device->identities[i % FIKIT_IDENTITY_BUCKETS];
    uint64_t found = atomic_load_explicit(&bucket->key, memory_order_relaxed);
    if (found == key || found == 0)
      return bucket;
  }
}

uint32_t fikit_identity_new(struct fikit_device *device, uint64_t key, const struct fikit_name *name,
                            const struct fikit_shape *shape) {
  int saved = errno;
  if (__atomic_load_n(&device->slots, __ATOMIC_RELAXED) == FIKIT_SLOTS || !fikit_lock(&device->describing))
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
  }
  fikit_unlock(&device->describing);
  errno = saved;
  return slot;
}
