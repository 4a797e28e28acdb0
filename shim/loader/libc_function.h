/* A function of the C library itself, also where other libraries in the process define that name. */
#ifndef FIKIT_SHIM_LIBC_FUNCTION_H
#define FIKIT_SHIM_LIBC_FUNCTION_H

#include <link.h>
#include <stdbool.h>

/* False in a program of another C library (musl), in which this library lets every call through and does nothing. */
bool fikit_is_glibc(void);

/* The program and its libraries, as the loader has them in its list. */
const struct link_map *fikit_objects(void);

/* NULL when the C library has no such function (before glibc 2.34: neither libc nor libdl). Calls no function, so that it works before any
 * constructor has run, and beneath other libraries' hooks. */
void *fikit_libc_function(const char *name);

#endif
