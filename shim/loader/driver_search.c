/* Find the real libcuda.so.1 as ld.so would: RPATH and LD_LIBRARY_PATH, the cache, the usual directories. By absolute
 * path, because dlopen("libcuda.so.1") answers with the shim itself: the SONAME matches. */
#include "loader/driver.h"
#include "base/file_id.h"
#include "loader/loader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define DRIVER_NAME "libcuda.so.1"

struct search {
  char *found; /* 4096 bytes */
  struct fikit_file_id self;
};

static bool candidate(const char *path, struct search *search) {
  bool regular;
  struct fikit_file_id file = fikit_file_id_of_path(path, &regular);
  size_t bytes = strlen(path) + 1;
  if (!regular || fikit_same_file(file, search->self) || bytes > 4096)
    return false;
  memcpy(search->found, path, bytes);
  return true;
}

static bool in_directory(const char *directory, void *data) {
  char path[4096];
  int length = snprintf(path, sizeof path, "%s/" DRIVER_NAME, directory);
  return length > 0 && length < (int)sizeof path && candidate(path, data);
}

/* /etc/ld.so.cache, "glibc-ld.so.cache1.1" format: header, entries sorted by name, strings at offsets from the start. */
struct cache_header {
  char magic[20];
  uint32_t entries;
  uint32_t string_bytes;
  uint32_t unused[5];
};
struct cache_entry {
  int32_t flags;
  uint32_t name, path;
  uint32_t os_version;
  uint64_t hwcap;
};
/* Of an entry for this processor (glibc's sysdeps/generic/ldconfig.h), and where Debian has its libraries. */
#if defined(__x86_64__)
enum { CACHE_ELF_OURS = 0x0303 };
#define DEBIAN_DIRECTORY "/usr/lib/x86_64-linux-gnu"
#elif defined(__aarch64__)
enum { CACHE_ELF_OURS = 0x0a03 };
#define DEBIAN_DIRECTORY "/usr/lib/aarch64-linux-gnu"
#endif

static bool in_cache_bytes(const char *bytes, size_t size, struct search *search) {
  const struct cache_header *header = (const void *)bytes;
  if (size < sizeof *header || memcmp(header->magic, "glibc-ld.so.cache1.1", 20) != 0 || bytes[size - 1] != 0)
    return false;
  const struct cache_entry *entry = (const void *)(header + 1);
  if (header->entries > (size - sizeof *header) / sizeof *entry)
    return false;
  for (uint32_t i = 0; i < header->entries; i++)
    if (entry[i].flags == CACHE_ELF_OURS && entry[i].name < size && entry[i].path < size &&
        strcmp(bytes + entry[i].name, DRIVER_NAME) == 0 && candidate(bytes + entry[i].path, search))
      return true;
  return false;
}

static bool in_cache(struct search *search) {
  int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  off_t size = lseek(fd, 0, SEEK_END);
  void *bytes = size > 0 ? mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
  close(fd);
  if (bytes == MAP_FAILED)
    return false;
  bool found = in_cache_bytes(bytes, (size_t)size, search);
  munmap(bytes, (size_t)size);
  return found;
}

bool fikit_driver_search(char path[4096]) {
  static const char *const usual[] = {DEBIAN_DIRECTORY, "/usr/lib64", "/usr/lib", "/usr/lib/wsl/lib"};
  struct search search = {.found = path};
  const char *self = fikit_object_of((const void *)fikit_driver_search);
  bool regular;
  if (self) /* replaced or removed: nothing to skip */
    search.self = fikit_file_id_of_path(self, &regular);
  if (fikit_search_directories(true, in_directory, &search) || in_cache(&search) ||
      fikit_search_directories(false, in_directory, &search))
    return true;
  for (unsigned i = 0; i < sizeof usual / sizeof usual[0]; i++)
    if (in_directory(usual[i], &search))
      return true;
  return false;
}
