#include "base/device.h"
#include "base/look.h"
#include "attach/attach.h"
#include "base/clock.h"
#include "identity/collective.h"
#include "attach/fork.h"
#include "attach/mps.h"
#include "gate/gate.h"
#include "identity/identity.h"
#include "base/lock.h"
#include "gate/marker.h"
#include "timing/measure.h"
#include "base/monitor.h"
#include "base/page.h"
#include "gate/gpu_marker.h"
#include "base/log.h"
#include "streams/stream.h"
#include "base/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* By ordinal; NULL: fikitd was not asked yet. */
static _Atomic(struct fikit_device *) devices[FIKIT_MAX_DEVICES];
static struct fikit_device unmanaged; /* means: fikitd was asked, and the device is not managed */
static _Atomic(struct fikit_device *) watched[FIKIT_MAX_DEVICES]; /* in the order in which they were asked about */
FIKIT_LOCK(attaching);
/* For unmanaged devices, under `attaching`; NULL: no further try. */
static struct fikit_attempt *attempts[FIKIT_MAX_DEVICES];
static char socket_path[FIKIT_PATH_BYTES];
_Atomic int64_t fikit_attach_due_ns = INT64_MAX;
enum { WATCH_PATIENCE_S = 1 };
#define WATCH_PAUSE_NS (10 * INT64_C(1000000000))

/* Fill in the process and the GPU. With MIG that is the instance's own UUID (version 2 of the call). */
static bool describe(CUdevice ordinal, struct fikit_hello *hello) {
  CUuuid uuid;
  size_t memory = 0;
  int in_mps = 0;
  CUresult result =
      HAS(cuDeviceGetUuid_v2) ? REAL(cuDeviceGetUuid_v2)(&uuid, ordinal) : REAL(cuDeviceGetUuid)(&uuid, ordinal);
  if (result != CUDA_SUCCESS || REAL(cuDeviceTotalMem_v2)(&memory, ordinal) != CUDA_SUCCESS)
    return false;
  *hello = (struct fikit_hello){
      .head = {FIKIT_MSG_HELLO, sizeof *hello},
      .version = FIKIT_PROTOCOL_OLDEST,
      .newest = FIKIT_PROTOCOL_VERSION,
      .gpu_memory_bytes = memory};
  memcpy(hello->gpu_uuid, uuid.bytes, sizeof hello->gpu_uuid);
  REAL(cuDeviceGetName)(hello->gpu_name, (int)sizeof hello->gpu_name - 1, ordinal);
  if (REAL(cuDeviceGetAttribute)(&in_mps, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, ordinal) == CUDA_SUCCESS) {
    hello->purpose |= in_mps ? FIKIT_HELLO_MPS : FIKIT_HELLO_NO_MPS;
    if (!in_mps)
      fikit_mps_denied();
  }
  return true;
}

/* Every socket has an inode of its own; eventfds share one, so the socket answers for both. */
bool fikit_descriptors_ours(const struct fikit_device *device) {
  return fikit_same_file(fikit_file_id(device->socket), device->socket_file);
}

static struct fikit_device *new_device(const struct fikit_connection *connection, const uint8_t uuid[16]) {
  struct fikit_device *device = calloc(1, sizeof *device);
  if (!device)
    return NULL;
  device->page = connection->page;
  device->plan = connection->plan;
  device->plan_from = FIKIT_LOOK_NEVER;
  device->socket = connection->socket;
  fikit_collectives_of_site(device->page);
  device->socket_file = fikit_file_id(connection->socket);
  device->doorbell = connection->doorbell;
  device->memory = connection->memory;
  device->share = connection->share;
  memcpy(device->uuid, uuid, sizeof device->uuid);
  device->looked_ns = fikit_now_ns();
  device->slots = device->described = 1; /* slot 0 means "not described" */
  device->descriptions = calloc(FIKIT_SLOTS, sizeof *device->descriptions);
  pthread_mutex_init(&device->describing, NULL);
  pthread_mutex_init(&device->reserving, NULL);
  device->markers = fikit_markers_new();
  device->gpu_markers = fikit_gpu_markers_new();
  bool timing = fikit_measure_start(device);
  if (device->descriptions && device->markers && device->gpu_markers && timing)
    return device;
  free(device->descriptions);
  free(device->markers);
  free(device->gpu_markers);
  free(device->measure);
  free(device);
  return NULL;
}

/* Under `attaching`. */
static void find_next_due(void) {
  int64_t due_ns = INT64_MAX;
  for (int i = 0; i < FIKIT_MAX_DEVICES; i++)
    if (attempts[i] && attempts[i]->due_ns < due_ns)
      due_ns = attempts[i]->due_ns;
  atomic_store_explicit(&fikit_attach_due_ns, due_ns, memory_order_relaxed);
}

static struct fikit_device *managed(const struct fikit_connection *connection, const struct fikit_hello *hello) {
  struct fikit_device *device = new_device(connection, hello->gpu_uuid);
  if (device)
    return device;
  fikit_log("no memory to manage this program: it runs without priorities.");
  fikit_disconnect(connection);
  return &unmanaged;
}

static struct fikit_device *attach(CUdevice ordinal) {
  char reason[FIKIT_REASON_BYTES];
  struct fikit_hello hello;
  struct fikit_connection connection;
  struct fikit_attempt *attempt;
  const char *path = getenv(FIKIT_ENV_SOCKET);
  if (!path || !*path)
    return &unmanaged; /* not a job of fikit's: silently */
  if (!describe(ordinal, &hello))
    return NULL; /* the driver is not initialised yet: try again at the next call */
  attempt = calloc(1, sizeof *attempt);
  if (!attempt) {
    fikit_log("no memory to manage this program: it runs without priorities.");
    return &unmanaged;
  }
  if (fikit_attach_first(attempt, path, &hello, &connection, reason)) {
    free(attempt);
    return managed(&connection, &hello);
  }
  fikit_log("fikitd at %s does not manage this program (%s): it runs without priorities until it does.", path, reason);
  size_t bytes = strlen(path) + 1;
  if (bytes <= sizeof socket_path) { /* a copy, since the program may change its environment */
    memcpy(socket_path, path, bytes);
    attempts[ordinal] = attempt;
    find_next_due();
  } else {
    free(attempt);
  }
  return &unmanaged;
}

void fikit_attach_again(void) {
  int saved = errno;
  if (!fikit_lock(&attaching))
    return; /* called from a signal handler */
  for (int i = 0; i < FIKIT_MAX_DEVICES; i++) {
    struct fikit_connection connection;
    struct fikit_attempt *attempt = attempts[i];
    if (!attempt || !fikit_attach_go_on(attempt, socket_path, &connection))
      continue;
    struct fikit_device *device = managed(&connection, &attempt->hello);
    attempts[i] = NULL;
    free(attempt);
    if (device != &unmanaged)
      fikit_log("fikitd manages this program from now on.");
    atomic_store_explicit(&devices[i], device, memory_order_release);
    fikit_stream_forget_unmanaged();
  }
  find_next_due();
  fikit_unlock(&attaching);
  errno = saved;
}

struct fikit_device *fikit_device_of(CUdevice ordinal) {
  if (ordinal < 0 || ordinal >= FIKIT_MAX_DEVICES)
    return NULL;
  struct fikit_device *device = atomic_load_explicit(&devices[ordinal], memory_order_acquire);
  if (!device) {
    if (!fikit_lock(&attaching))
      return NULL;
    device = atomic_load_explicit(&devices[ordinal], memory_order_relaxed);
    if (!device) {
      device = attach(ordinal);
      atomic_store_explicit(&devices[ordinal], device, memory_order_release);
    }
    fikit_unlock(&attaching);
  }
  if (device == &unmanaged && fikit_attach_due()) {
    fikit_attach_again();
    device = atomic_load_explicit(&devices[ordinal], memory_order_acquire);
  }
  return device == &unmanaged ? NULL : device;
}

struct fikit_device *fikit_device_current(CUcontext *context) {
  CUcontext current = NULL;
  CUdevice ordinal;
  if (REAL(cuCtxGetCurrent)(&current) != CUDA_SUCCESS || !current || REAL(cuCtxGetDevice)(&ordinal) != CUDA_SUCCESS)
    current = NULL;
  if (context)
    *context = current;
  return current ? fikit_device_of(ordinal) : NULL;
}

struct fikit_device *fikit_device_by_uuid(const uint8_t uuid[16]) {
  for (int i = 0; i < FIKIT_MAX_DEVICES; i++) {
    struct fikit_device *device = atomic_load_explicit(&devices[i], memory_order_acquire);
    if (device && device != &unmanaged && memcmp(device->uuid, uuid, sizeof device->uuid) == 0)
      return device;
  }
  return NULL;
}

/* Under `attaching`. If it fails, the page is tried for again at the next call. */
static void watch(struct fikit_device *device, const char *path, const struct fikit_hello *hello) {
  char reason[FIKIT_REASON_BYTES];
  struct fikit_connection connection;
  int fd = fikit_ask(path, hello, WATCH_PATIENCE_S, reason);
  enum fikit_answer answer = fd < 0 ? FIKIT_NOT_MANAGED : fikit_hear(fd, hello, true, &connection, reason);
  atomic_store_explicit(&device->looked_ns, fikit_now_ns(), memory_order_relaxed);
  if (answer == FIKIT_NO_ANSWER)
    close(fd);
  if (answer != FIKIT_MANAGED)
    return;
  device->page = connection.page;
  device->memory = connection.memory;
  device->socket = connection.socket;
  device->socket_file = fikit_file_id(connection.socket);
  device->doorbell = connection.doorbell;
  atomic_store_explicit(&device->gone, false, memory_order_release);
}

static struct fikit_device *new_watch(const struct fikit_hello *hello) {
  struct fikit_device *device = calloc(1, sizeof *device);
  if (device) {
    memcpy(device->uuid, hello->gpu_uuid, sizeof device->uuid);
    atomic_store_explicit(&device->looked_ns, INT64_MIN / 2, memory_order_relaxed);
    atomic_store_explicit(&device->gone, true, memory_order_relaxed);
  }
  return device;
}

struct fikit_device *fikit_device_watch(const struct fikit_hello *hello) {
  const char *path = getenv(FIKIT_ENV_SOCKET);
  struct fikit_device *device = NULL;
  fikit_fork_watch(); /* elsewhere the driver's opening does this, but here none may be open */
  if (!path || !*path || !fikit_lock(&attaching))
    return NULL;
  for (int i = 0; i < FIKIT_MAX_DEVICES && !device; i++) {
    if (!watched[i])
      watched[i] = new_watch(hello);
    device = watched[i];
    if (!device)
      break; /* no memory */
    if (memcmp(device->uuid, hello->gpu_uuid, sizeof device->uuid) != 0)
      device = NULL;
  }
  if (device && !device->gone && (!fikit_descriptors_ours(device) || fikit_connection_ended(device)))
    device->gone = true;
  if (device && device->gone && !device->memory && fikit_now_ns() - device->looked_ns >= WATCH_PAUSE_NS)
    watch(device, path, hello);
  fikit_unlock(&attaching);
  return device;
}

void fikit_device_each(void (*visit)(struct fikit_device *device)) {
  for (int i = 0; i < FIKIT_MAX_DEVICES; i++) {
    struct fikit_device *device = atomic_load_explicit(&devices[i], memory_order_acquire);
    if (device && device != &unmanaged)
      visit(device);
  }
}

static void replace_by_empty(void *mapping, size_t bytes) {
  (void)mmap(mapping, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

/* The structures stay allocated, with empty pages: the fork may have come from a signal handler that interrupted a use of them. */
static void forget(struct fikit_device *device) {
  replace_by_empty(device->page, sizeof *device->page);
  if (device->plan)
    replace_by_empty(device->plan, sizeof *device->plan);
  replace_by_empty(device->memory, sizeof *device->memory);
  if (fikit_descriptors_ours(device)) {
    close(device->socket);
    close(device->doorbell);
  }
}

void fikit_device_forget_all(void) {
  fikit_device_each(forget);
  for (int i = 0; i < FIKIT_MAX_DEVICES; i++)
    if (watched[i] && !watched[i]->gone)
      forget(watched[i]);
  memset((void *)devices, 0, sizeof devices);
  memset((void *)watched, 0, sizeof watched);
  for (int i = 0; i < FIKIT_MAX_DEVICES; i++)
    if (attempts[i])
      fikit_attach_drop(attempts[i]);
  memset((void *)attempts, 0, sizeof attempts);
  atomic_store_explicit(&fikit_attach_due_ns, INT64_MAX, memory_order_relaxed);
}

/* fikitd is gone, so that only this process writes the page now. It stays mapped: other threads are using it. */
void fikit_device_release(struct fikit_device *device) {
  atomic_store_explicit(&device->gone, true, memory_order_relaxed);
  atomic_store_explicit(&device->page->gate_until_ns, 0, memory_order_relaxed);
  atomic_store_explicit(&device->page->gate, FIKIT_GATE_OPEN, memory_order_seq_cst);
  fikit_gate_wake(device);
}

void fikit_doorbell(struct fikit_device *device) {
  uint64_t one = 1;
  if (atomic_load_explicit(&device->gone, memory_order_relaxed) || !fikit_page_needs_bell(device->page) ||
      !fikit_descriptors_ours(device))
    return;
  syscall(SYS_write, device->doorbell, &one, sizeof one); /* unlike write(), where no thread is cancelled */
}
