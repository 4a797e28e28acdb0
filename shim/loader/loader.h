/* The dynamic loader, by symbol versions that every glibc since 2.2.5 has, and never through our own hooks. */
#ifndef FIKIT_SHIM_LOADER_H
#define FIKIT_SHIM_LOADER_H

#include <stdbool.h>
#include <stddef.h>

/* The dlsym and dlvsym that a program would have reached without us; set once fikit_loader_ready() returns. */
extern void *(*fikit_next_dlsym)(void *handle, const char *name) __attribute__((visibility("hidden")));
extern void *(*fikit_next_dlvsym)(void *handle, const char *name, const char *version)
    __attribute__((visibility("hidden")));
void fikit_loader_ready(void);

/* Look `name` up in `handle` with glibc's own dlsym or dlvsym. */
void *fikit_lookup(void *handle, const char *name);
void *fikit_lookup_version(void *handle, const char *name, const char *version);

/* Path of the object that holds `address`, or NULL. */
const char *fikit_object_of(const void *address);

/* Whether one object holds both. */
bool fikit_same_object(const void *address, const void *other);

/* Whether this handle is dlmopen's, of an object that has libraries of its own; of glibc only. */
bool fikit_in_other_namespace(void *handle);

/* Open the library at an absolute path; NULL if that fails. */
void *fikit_open(const char *path);

/* Directories of the running program's library search, in order; `visit` returns true to stop. `before_cache` picks
 * the ones that ld.so searches before its cache (RPATH, LD_LIBRARY_PATH, RUNPATH) or after it (its defaults). */
bool fikit_search_directories(bool before_cache, bool (*visit)(const char *directory, void *data), void *data);

#endif
