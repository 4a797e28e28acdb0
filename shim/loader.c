#include "loader.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

/* glibc 2.34 gave these new default versions; a library built here would not load on older systems with them. */
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
__asm__(".symver dlvsym,dlvsym@GLIBC_2.2.5");
__asm__(".symver dladdr,dladdr@GLIBC_2.2.5");
__asm__(".symver dlinfo,dlinfo@GLIBC_2.3.3");

void *(*fikit_real_dlsym)(void *handle, const char *name);

static void find_real_dlsym(void) {
  if (fikit_real_dlsym)
    return;
  void *found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  if (!found)
    found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  __atomic_store_n((void **)&fikit_real_dlsym, found, __ATOMIC_RELEASE);
}

__attribute__((constructor)) static void store_pointers(void) {
  find_real_dlsym();
}

void *fikit_lookup(void *handle, const char *name) {
  find_real_dlsym(); /* another library's constructor may come before ours */
  return fikit_real_dlsym(handle, name);
}

const char *fikit_object_of(const void *address) {
  Dl_info info;
  return dladdr(address, &info) ? info.dli_fname : NULL;
}

/* DEEPBIND: the driver's own references bind to itself and are not gated a second time. */
void *fikit_open(const char *path) {
  return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
}

bool fikit_search_directories(bool before_cache, bool (*visit)(const char *directory, void *data), void *data) {
  void *program = dlopen(NULL, RTLD_LAZY);
  Dl_serinfo size;
  if (!program || dlinfo(program, RTLD_DI_SERINFOSIZE, &size) != 0)
    return false;
  Dl_serinfo *path = malloc(size.dls_size);
  bool stopped = false;
  if (path && dlinfo(program, RTLD_DI_SERINFOSIZE, path) == 0 && dlinfo(program, RTLD_DI_SERINFO, path) == 0)
    for (unsigned i = 0; i < path->dls_cnt && !stopped; i++)
      if (before_cache == !(path->dls_serpath[i].dls_flags & LA_SER_DEFAULT))
        stopped = visit(path->dls_serpath[i].dls_name, data);
  free(path);
  return stopped;
}

void *fikit_pthread_function(const char *name) {
  return fikit_lookup(RTLD_DEFAULT, name);
}
