/* A function of the C library itself, whoever else in the process defines that name. */
#ifndef FIKIT_SHIM_LIBC_FUNCTION_H
#define FIKIT_SHIM_LIBC_FUNCTION_H

#include <link.h>
#include <stdbool.h>

/* False in a program of another C library (musl), in which this library lets every call through and does nothing. */
bool fikit_is_glibc(void);

/* The program and its libraries, as the loader has them in its list. */
const struct link_map *fikit_objects(void);

/* NULL when the C library has no such function (before glibc 2.34: neither libc nor libdl). Calls nothing, so that it
 * works before any constructor ran and underneath other people's hooks. */
void *fikit_libc_function(const char *name);

#endif
