/* The answers of our dlsym and dlvsym. A table of names decides, not the prefix "cu", which cublas* and cudnn* have too. */
#include "loader/driver.h"
#include "loader/libc_function.h"
#include "loader/loader.h"
#include "loader/nvml.h"
#include "base/log.h"
#include "base/symbols.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

/* Returned in two registers to entry_*.S: `decided` 0 means "leave by a jump to the next dlsym or dlvsym". */
struct answer {
  void *function;
  uint64_t decided;
};

static bool is_driver(const char *path) {
  const char *slash = path ? strrchr(path, '/') : NULL;
  return path && strncmp(slash ? slash + 1 : path, "libcuda.so", 10) == 0;
}

/* Our exports have no versions, so that a versioned look-up does not find them. The real driver decides whether it has the name in that
 * version. */
static void *found_in(void *handle, const char *name, const char *version, const struct fikit_export *export) {
  if (!version)
    return fikit_next_dlsym(handle, name);
  void *found = fikit_next_dlvsym(handle, name, version);
  if (found || fikit_lookup(handle == RTLD_NEXT ? RTLD_DEFAULT : handle, name) != (void *)export->own)
    return found;
  void *driver = fikit_driver();
  return driver && fikit_lookup_version(driver, name, version) ? (void *)export->own : NULL;
}

/* The program uses another copy of the driver: a file of its own (a newer driver beside the node's), or ours in another namespace (dlmopen).
 * The handles of one copy mean nothing to the other, so that no call of the second one may come to ours. */
static void say_second_copy(const char *path) {
  static bool said;
  if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
    fikit_log("what this program runs by %s runs without priorities: it is a second copy of the CUDA driver in this process.", path);
}

struct answer fikit_dlsym_filter(void *handle, const char *name, const char *version)
    __attribute__((visibility("hidden")));
struct answer fikit_dlsym_filter(void *handle, const char *name, const char *version) {
  struct answer pass = {NULL, 0};
  fikit_loader_ready();
  if (!fikit_is_glibc())
    return pass;
  const bool pseudo = handle == RTLD_DEFAULT || handle == RTLD_NEXT;
  if (name && !version && !pseudo && fikit_nvml_handles(name))
    return (struct answer){fikit_nvml_lookup(handle, name), 1};
  /* Pseudo handles keep the caller's meaning: the search finds our exports first anyway, or starts after them. */
  if ((pseudo && !version) || !name || name[0] != 'c' || name[1] != 'u' || fikit_driver_busy())
    return pass;
  int symbol = fikit_symbol_of(name);
  if (symbol < 0)
    return pass;

  const struct fikit_export *export = &fikit_exports[symbol];
  if (!pseudo && fikit_in_other_namespace(handle)) {
    const void *other = export->handled ? fikit_lookup(handle, name) : NULL;
    if (other && is_driver(fikit_object_of(other)))
      say_second_copy(fikit_object_of(other));
    return pass;
  }
  void *found = found_in(handle, name, version, export);
  if (!found)
    return (struct answer){NULL, 1};
  if (found == (void *)export->own) {
    /* The handle is the shim's (dlopen by SONAME) or the whole program's: the real driver decides whether the name exists. */
    if (!fikit_driver())
      return (struct answer){found, 1};
    void *real = fikit_real((enum fikit_symbol)symbol);
    return (struct answer){real && export->handled ? found : real, 1};
  }
  const char *object = fikit_object_of(found);
  if (!is_driver(object)) /* another library's function of that name, looked up in that library */
    return (struct answer){found, 1};
  fikit_driver_adopt(object);
  if (fikit_driver_holds(found))
    return (struct answer){export->handled ? (void *)export->own : found, 1};
  if (export->handled && fikit_driver())
    say_second_copy(object);
  return (struct answer){found, 1};
}
