#include "fikit_preload.h"

#include <string.h>

static const char separators[] = ": ";

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

static bool append_others(const char *list, const char *shim, char *out, size_t size) {
  for (const char *entry = list; *entry;) {
    const size_t length = strcspn(entry, separators);
    const bool ours = length == strlen(shim) && memcmp(entry, shim, length) == 0;
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
  out[0] = '\0';
  return append(out, size, shim, strlen(shim)) && append_others(list, shim, out, size);
}
