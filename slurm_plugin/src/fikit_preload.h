/* Our entry in LD_PRELOAD, as text. */
#ifndef FIKIT_PRELOAD_H
#define FIKIT_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>

/* Copies LD_PRELOAD `list` (entries divided by ':' or ' ') without `shim` into `out`; false when it does not fit. */
bool fikit_preload_without(const char *list, const char *shim, char *out, size_t size);

/* The same with `shim` as first entry, once, and the user's entries after it. */
bool fikit_preload_with(const char *list, const char *shim, char *out, size_t size);

#endif
