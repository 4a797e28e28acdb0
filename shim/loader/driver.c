#include "loader/driver.h"
#include "base/cuda_abi.h"
#include "attach/fork.h"
#include "loader/libc_function.h"
#include "loader/loader.h"
#include "base/lock.h"
#include "base/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

FIKIT_LOCK(opening);
static void *driver;
static bool searched;
static __thread bool busy;
static bool resolved[FIKIT_SYMBOLS];

bool fikit_driver_busy(void) {
  return busy;
}

/* A search that failed because the program had no descriptor left does not prove that there is no driver. */
static bool descriptors_left(void) {
  int fd = open("/", O_PATH | O_CLOEXEC);
  if (fd < 0)
    return errno != EMFILE && errno != ENFILE;
  close(fd);
  return true;
}

/* True: the result is final. A driver that exists but did not open may open later. */
static bool search_and_open(const char *path) {
  char found[4096];
  if (!path && fikit_driver_search(found))
    path = found;
  if (path)
    driver = fikit_open(path);
  return driver || (!path && descriptors_left());
}

/* Opens `path` or, if NULL, what the search finds. A process has one driver: it is never searched for again after an answer. The driver needs
 * glibc; no other C library loads it. */
static void open_driver(const char *path) {
  if (!fikit_is_glibc() || __atomic_load_n(&searched, __ATOMIC_ACQUIRE) || busy || !fikit_lock(&opening))
    return;
  if (!searched) {
    busy = true;
    bool known = search_and_open(path);
    busy = false;
    __atomic_store_n(&searched, known, __ATOMIC_RELEASE);
  }
  fikit_unlock(&opening);
  if (driver)
    fikit_fork_watch();
}

void *fikit_driver(void) {
  open_driver(NULL);
  return __atomic_load_n(&driver, __ATOMIC_ACQUIRE);
}

void fikit_driver_adopt(const char *path) {
  open_driver(path);
}

bool fikit_driver_holds(const void *function) {
  const void *of_driver = fikit_driver() ? fikit_real(FIKIT_SYM_cuInit) : NULL;
  return of_driver && fikit_same_object(of_driver, function);
}

/* What a slot holds when the driver has no such function. Extra arguments are ignored by the calling convention. */
static CUresult lacking(void) {
  return CUDA_ERROR_NOT_FOUND;
}

static CUresult no_driver(void) {
  return CUDA_ERROR_NO_DEVICE;
}

/* The manual: version 0 and success where no driver is installed. */
static CUresult no_driver_version(int *version) {
  if (version)
    *version = 0;
  return CUDA_SUCCESS;
}

static void fill(int symbol, void *function) {
  fikit_slot_fill((enum fikit_symbol)symbol, function);
  __atomic_store_n(&resolved[symbol], true, __ATOMIC_RELEASE);
}

/* Called by a slot's lazy stub with the slot's number; returns where to go on. */
void *fikit_resolve(int symbol) __attribute__((visibility("hidden")));
void *fikit_resolve(int symbol) {
  if (__atomic_load_n(&resolved[symbol], __ATOMIC_ACQUIRE))
    return __atomic_load_n(&fikit_slots[symbol], __ATOMIC_ACQUIRE);
  void *handle = fikit_driver();
  void *function;
  if (handle) {
    function = fikit_lookup(handle, fikit_symbol_names[symbol]);
    if (!function)
      function = (void *)lacking;
  } else {
    function = symbol == FIKIT_SYM_cuDriverGetVersion ? (void *)no_driver_version : (void *)no_driver;
    /* A call from the driver's own constructor, or a search that is to be repeated: this answer is not kept. */
    if (busy || !__atomic_load_n(&searched, __ATOMIC_ACQUIRE))
      return function;
  }
  fill(symbol, function);
  return function;
}

void *fikit_real(enum fikit_symbol symbol) {
  void *function = fikit_resolve((int)symbol);
  return function == (void *)lacking || function == (void *)no_driver || function == (void *)no_driver_version
             ? NULL
             : function;
}

void fikit_offer(enum fikit_symbol symbol, void *function) {
  if (!fikit_real(symbol))
    fill((int)symbol, function);
}

int fikit_symbol_of(const char *name) {
  int low = 0, high = FIKIT_SYMBOLS - 1;
  while (low <= high) {
    int middle = (low + high) / 2;
    int order = strcmp(name, fikit_symbol_names[middle]);
    if (order == 0)
      return middle;
    if (order < 0)
      high = middle - 1;
    else
      low = middle + 1;
  }
  return -1;
}
