/*
 * One program, every way to the driver (interception notes, section 2). Launches once and exits with 0 if the driver
 * accepted. Ways: those of find(); "in:FLAG WAY" goes WAY from inside a library, opened with RTLD_FLAG.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int launch_fn(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

struct driver {
  int (*init)(unsigned);
  int (*create)(void **, unsigned, int);
  launch_fn *launch;
};

static void *must(void *found, const char *what) {
  if (!found) {
    fprintf(stderr, "%s: %s\n", what, dlerror());
    exit(2);
  }
  return found;
}

/* As a driver with symbol versions would be asked (shim_versions.map). */
static struct driver by_dlvsym(void *library) {
  const char *v = "STAND_IN_1";
  return (struct driver){(int (*)(unsigned))must(dlvsym(library, "cuInit", v), "cuInit"),
                         (int (*)(void **, unsigned, int))must(dlvsym(library, "cuCtxCreate_v2", v), "cuCtxCreate_v2"),
                         (launch_fn *)must(dlvsym(library, "cuLaunchKernel", v), "cuLaunchKernel")};
}

static struct driver by_dlsym(void *library) {
  return (struct driver){(int (*)(unsigned))must(dlsym(library, "cuInit"), "cuInit"),
                         (int (*)(void **, unsigned, int))must(dlsym(library, "cuCtxCreate_v2"), "cuCtxCreate_v2"),
                         (launch_fn *)must(dlsym(library, "cuLaunchKernel"), "cuLaunchKernel")};
}

static void *open_library(const char *name, int flags) {
  return must(dlopen(name, RTLD_NOW | flags), name);
}

/* The runtime's way: look cuGetProcAddress up, let it find itself, and then the rest. */
static struct driver by_proc_address(int version, const char *first, uint64_t flags) {
  void *library = open_library("libcuda.so.1", 0);
  struct driver driver = by_dlsym(library);
  void *itself = must(dlsym(library, first), first);
  int status = -1;
  driver.launch = NULL;
  if (version < 12000) {
    int (*get)(const char *, void **, int, uint64_t) = itself;
    if (get("cuGetProcAddress", &itself, version, 0) != 0)
      exit(3);
    get = itself;
    if (get("cuLaunchKernel", (void **)&driver.launch, version, flags) != 0)
      exit(4);
  } else {
    int (*get)(const char *, void **, int, uint64_t, int *) = itself;
    if (get("cuGetProcAddress", &itself, version, 0, &status) != 0)
      exit(3);
    get = itself;
    if (get("cuLaunchKernel", (void **)&driver.launch, version, flags, &status) != 0 || status != 0)
      exit(4);
  }
  return driver;
}

#ifdef LINKED
int cuInit(unsigned);
int cuCtxCreate_v2(void **, unsigned, int);
launch_fn cuLaunchKernel;
#endif

static struct driver find(const char *way, const char *path) {
#ifdef LINKED
  if (strcmp(way, "linked") == 0)
    return (struct driver){cuInit, cuCtxCreate_v2, cuLaunchKernel};
  if (strcmp(way, "next") == 0)
    return by_dlsym(RTLD_NEXT);
  if (strcmp(way, "default") == 0)
    return by_dlsym(RTLD_DEFAULT);
#endif
  if (strcmp(way, "name") == 0)
    return by_dlsym(open_library("libcuda.so.1", 0));
  if (strcmp(way, "devel") == 0)
    return by_dlsym(open_library("libcuda.so", 0));
  if (strcmp(way, "path") == 0)
    return by_dlsym(open_library(path, 0));
  if (strcmp(way, "global") == 0) {
    open_library("libcuda.so.1", RTLD_GLOBAL);
    return by_dlsym(RTLD_DEFAULT);
  }
  if (strcmp(way, "version") == 0)
    return by_dlvsym(open_library("libcuda.so.1", 0));
  if (strcmp(way, "version path") == 0)
    return by_dlvsym(open_library(path, 0));
  if (strcmp(way, "proc1") == 0)
    return by_proc_address(11030, "cuGetProcAddress", 0);
  if (strcmp(way, "proc1 per thread") == 0)
    return by_proc_address(11030, "cuGetProcAddress", 2);
  if (strcmp(way, "proc2") == 0)
    return by_proc_address(12080, "cuGetProcAddress_v2", 0);
  if (strcmp(way, "proc2 per thread") == 0)
    return by_proc_address(12080, "cuGetProcAddress_v2", 2);
  exit(5);
}

#ifdef INNER
/* Built as a library too: with RTLD_DEEPBIND its own dlsym is glibc's and only the SONAME is left. */
struct driver inner(const char *way, const char *path) {
  return find(way, path);
}
#endif

typedef struct driver inner_fn(const char *way, const char *path);

/* argv: program [WAY [PATH]], or program in:FLAG LIBRARY WAY [PATH]. */
static struct driver find_by(char **argv) {
  if (!argv[1])
    return find("linked", NULL);
  if (strncmp(argv[1], "in:", 3) != 0)
    return find(argv[1], argv[2]);
  int flags = strcmp(argv[1], "in:deepbind") == 0 ? RTLD_DEEPBIND : RTLD_LOCAL;
  return ((inner_fn *)must(dlsym(open_library(argv[2], flags), "inner"), "inner"))(argv[3], argv[4]);
}

int main(int argc, char **argv) {
  void *context;
  (void)argc;
  struct driver driver = find_by(argv);
  int result = driver.init(0);
  if (result == 0)
    result = driver.create(&context, 0, 0);
  if (result == 0)
    result = driver.launch((void *)0x300000, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
  return result == 0 ? 0 : 6;
}
