#include "loader/loader.h"
#include "loader/driver.h"
#include "loader/exec.h"
#include "loader/libc_function.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

/* glibc 2.34 gave these new default versions; a library built here would not load on older systems with them. */
#if defined(__x86_64__)
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
__asm__(".symver dladdr,dladdr@GLIBC_2.2.5");
__asm__(".symver dlinfo,dlinfo@GLIBC_2.3.3");
#elif defined(__aarch64__) /* glibc's first version for it is 2.17 */
__asm__(".symver dlopen,dlopen@GLIBC_2.17");
__asm__(".symver dladdr,dladdr@GLIBC_2.17");
__asm__(".symver dlinfo,dlinfo@GLIBC_2.17");
#endif

void *(*fikit_next_dlsym)(void *handle, const char *name);
void *(*fikit_next_dlvsym)(void *handle, const char *name, const char *version);
static void *(*libc_dlsym)(void *handle, const char *name);
static void *(*libc_dlvsym)(void *handle, const char *name, const char *version);

/* The next definition may be another library's hook, which must see the same calls as without the shim. */
static void *next(const char *name, void *otherwise) {
  void *found = libc_dlsym(RTLD_NEXT, name);
  return found ? found : otherwise;
}

/* A C library without versions (musl) has no dlvsym: nothing has the version that is asked for. */
static void *no_dlvsym(void *handle, const char *name, const char *version) {
  (void)handle, (void)name, (void)version;
  return NULL;
}

static void find_functions(void) {
  if (__atomic_load_n((void **)&fikit_next_dlsym, __ATOMIC_ACQUIRE))
    return;
  libc_dlsym = fikit_libc_function("dlsym");
  libc_dlvsym = fikit_libc_function("dlvsym");
  if (!libc_dlvsym)
    libc_dlvsym = no_dlvsym;
  fikit_next_dlvsym = next("dlvsym", (void *)libc_dlvsym);
  __atomic_store_n((void **)&fikit_next_dlsym, next("dlsym", (void *)libc_dlsym), __ATOMIC_RELEASE);
}

/* A program linked with the driver has it open before main(), so before it changes its file system, limits or rights. */
static bool linked_with_driver(void) {
  for (const struct link_map *object = fikit_objects(); object; object = object->l_next) {
    const char *names = NULL;
    for (const ElfW(Dyn) *entry = object->l_ld; entry && entry->d_tag != DT_NULL; entry++)
      if (entry->d_tag == DT_STRTAB)
        names = (const char *)entry->d_un.d_ptr;
    for (const ElfW(Dyn) *entry = object->l_ld; names && entry->d_tag != DT_NULL; entry++)
      if (entry->d_tag == DT_NEEDED && strncmp(names + entry->d_un.d_val, "libcuda.so", 10) == 0)
        return true;
  }
  return false;
}

/* Runs in every process of a job, so it opens no file, except the driver where the program itself is linked with it. */
__attribute__((constructor)) static void at_start(void) {
  find_functions();
  fikit_exec_at_start();
  if (fikit_is_glibc() && linked_with_driver())
    fikit_driver();
}

void fikit_loader_ready(void) {
  find_functions(); /* another library's constructor may come before ours */
}

void *fikit_lookup(void *handle, const char *name) {
  find_functions();
  return libc_dlsym(handle, name);
}

void *fikit_lookup_version(void *handle, const char *name, const char *version) {
  find_functions();
  return libc_dlvsym(handle, name, version);
}

const char *fikit_object_of(const void *address) {
  Dl_info info;
  return dladdr(address, &info) ? info.dli_fname : NULL;
}

bool fikit_same_object(const void *address, const void *other) {
  Dl_info its, others;
  return dladdr(address, &its) && dladdr(other, &others) && its.dli_fbase == others.dli_fbase;
}

bool fikit_in_other_namespace(void *handle) {
  Lmid_t namespace;
  return dlinfo(handle, RTLD_DI_LMID, &namespace) == 0 && namespace != LM_ID_BASE;
}

/* jemalloc, a sanitizer, the program's own: with DEEPBIND the driver would free by libc what the C library's strdup got
 * from the other malloc. */
static bool malloc_is_replaced(void) {
  return fikit_lookup(RTLD_DEFAULT, "malloc") != fikit_libc_function("malloc");
}

/* DEEPBIND: the driver's own references bind to itself and are not gated a second time. */
void *fikit_open(const char *path) {
  return dlopen(path, RTLD_NOW | RTLD_LOCAL | (malloc_is_replaced() ? 0 : RTLD_DEEPBIND));
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
