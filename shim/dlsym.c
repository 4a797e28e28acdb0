/* What our dlsym answers. An explicit table of names decides, never the prefix "cu": cublas*, cudnn* begin with it. */
#include "driver.h"
#include "loader.h"
#include "symbols.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

/* Returned in rax:rdx to entry_x86_64.S: `decided` 0 means "leave by a jump to glibc's dlsym". */
struct answer {
  void *function;
  uint64_t decided;
};

static bool is_driver(const char *path) {
  const char *slash = path ? strrchr(path, '/') : NULL;
  return path && strncmp(slash ? slash + 1 : path, "libcuda.so", 10) == 0;
}

struct answer fikit_dlsym_filter(void *handle, const char *name) __attribute__((visibility("hidden")));
struct answer fikit_dlsym_filter(void *handle, const char *name) {
  struct answer pass = {NULL, 0};
  if (!fikit_real_dlsym)
    fikit_lookup(RTLD_DEFAULT, "dlsym");
  /* Pseudo handles keep the caller's meaning: the search finds our exports first anyway, or starts after them. */
  if (handle == RTLD_DEFAULT || handle == RTLD_NEXT || !name || name[0] != 'c' || name[1] != 'u' || fikit_driver_busy())
    return pass;
  int symbol = fikit_symbol_of(name);
  if (symbol < 0)
    return pass;

  void *found = fikit_lookup(handle, name);
  const struct fikit_export *export = &fikit_exports[symbol];
  if (!found)
    return (struct answer){NULL, 1};
  if (found == (void *)export->own) {
    /* The handle is ours (dlopen by SONAME) or the whole program's: the driver decides whether the name exists. */
    if (!fikit_driver())
      return (struct answer){found, 1};
    void *real = fikit_real((enum fikit_symbol)symbol);
    return (struct answer){real && export->handled ? found : real, 1};
  }
  const char *object = fikit_object_of(found);
  if (!is_driver(object)) /* somebody else's function of that name, asked for in their own library */
    return (struct answer){found, 1};
  fikit_driver_adopt(object);
  return (struct answer){export->handled ? (void *)export->own : found, 1};
}
