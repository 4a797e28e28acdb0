#include "fikit_preload.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char separators[] = ": ";

/* What the kernel calls this processor, and glibc's loader with it: a shim for every loader has a directory of this name. */
#if defined(__x86_64__)
static const char platform_here[] = "x86_64";
#elif defined(__aarch64__)
static const char platform_here[] = "aarch64";
#endif

/* The shim's file in the directory `platform` beside it; "" where such a path is too long. */
static void beside(const char *shim, const char *platform, char path[PATH_MAX]) {
  const char *file = strrchr(shim, '/');
  const int length = file ? snprintf(path, PATH_MAX, "%.*s/%s%s", (int)(file - shim), shim, platform, file) : 0;
  if (length <= 0 || length >= PATH_MAX)
    path[0] = '\0';
}

/* glibc's loader replaces $PLATFORM by its processor's name, so that a 32-bit program finds what it can load; other C
 * libraries' loaders find no such directory, and say nothing (shim/CMakeLists.txt). */
static void beside_for_every_loader(const char *shim, char path[PATH_MAX]) {
  beside(shim, "$PLATFORM", path);
}

static bool append(char *out, size_t size, const char *entry, size_t length) {
  const size_t used = strlen(out);
  const size_t colon = used > 0;
  if (used + colon + length + 1 > size)
    return false;
  if (colon)
    out[used] = ':';
  memcpy(out + used + colon, entry, length);
  out[used + colon + length] = '\0';
  return true;
}

static bool is(const char *path, const char *entry, size_t length) {
  return length == strlen(path) && memcmp(entry, path, length) == 0;
}

static bool append_others(const char *list, const char *shim, char *out, size_t size) {
  char for_every_loader[PATH_MAX];
  beside_for_every_loader(shim, for_every_loader);
  for (const char *entry = list; *entry;) {
    const size_t length = strcspn(entry, separators);
    const bool ours = is(shim, entry, length) || is(for_every_loader, entry, length);
    if (length > 0 && !ours && !append(out, size, entry, length))
      return false;
    entry += length;
    entry += strspn(entry, separators);
  }
  return true;
}

bool fikit_preload_without(const char *list, const char *shim, char *out, size_t size) {
  out[0] = '\0';
  return append_others(list, shim, out, size);
}

bool fikit_preload_with(const char *list, const char *shim, char *out, size_t size) {
  char entry[PATH_MAX];
  beside(shim, platform_here, entry);
  if (entry[0] && access(entry, R_OK) == 0)
    beside_for_every_loader(shim, entry);
  else
    snprintf(entry, sizeof entry, "%s", shim);
  out[0] = '\0';
  return append(out, size, entry, strlen(entry)) && append_others(list, shim, out, size);
}

bool fikit_preload_can_name(const char *shim) {
  return !shim[strcspn(shim, separators)];
}
