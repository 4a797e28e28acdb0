/* Our entry in LD_PRELOAD, as text. */
#ifndef FIKIT_PRELOAD_H
#define FIKIT_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>

/* The shim's entry is its path, with $PLATFORM before the file's name where the shim's directory has one for each platform.
 * In lists both forms count as the shim: an older fikit's jobs have the first. */

/* Copies LD_PRELOAD `list` (entries divided by ':' or ' ') without `shim` into `out`; false when it does not fit. */
bool fikit_preload_without(const char *list, const char *shim, char *out, size_t size);

/* The same with the shim's entry first, once, and the user's entries after it. */
bool fikit_preload_with(const char *list, const char *shim, char *out, size_t size);

/* False where ld.so would take the path for several: it has a separator in it. */
bool fikit_preload_can_name(const char *shim);

#endif
