/* The dynamic loader, by symbol versions that every glibc since 2.2.5 has, and never through our own dlsym. */
#ifndef FIKIT_SHIM_LOADER_H
#define FIKIT_SHIM_LOADER_H

#include <stdbool.h>
#include <stddef.h>

/* glibc's dlsym; set before the first use of fikit_dlsym_filter returns. */
extern void *(*fikit_real_dlsym)(void *handle, const char *name) __attribute__((visibility("hidden")));

/* Look `name` up in `handle` with glibc's dlsym. */
void *fikit_lookup(void *handle, const char *name);

/* Path of the object that holds `address`, or NULL. */
const char *fikit_object_of(const void *address);

/* Open the library at an absolute path; NULL if that fails. */
void *fikit_open(const char *path);

/* Directories of the running program's library search, in order; `visit` returns true to stop. `before_cache` picks
 * the ones that ld.so searches before its cache (RPATH, LD_LIBRARY_PATH, RUNPATH) or after it (its defaults). */
bool fikit_search_directories(bool before_cache, bool (*visit)(const char *directory, void *data), void *data);

/* libpthread's function of this name, or NULL in a process without threads (glibc before 2.34). */
void *fikit_pthread_function(const char *name);

#endif
