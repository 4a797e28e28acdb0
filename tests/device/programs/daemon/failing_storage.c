/* Preloaded: what storage says when it is full, gone, read-only or broken, below one directory and for the operations that the
 * test wants, at any moment. FAILING_STORAGE names a file of `struct fault`, which the test writes. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN = 1, READ = 2, WRITE = 4, FSYNC = 8, RENAME = 16, STAT = 32, LIST = 64, MKDIR = 128, CHMOD = 256, CHOWN = 512, UNLINK = 1024 };

struct fault {
  unsigned operations; /* which fail; 0: none */
  int error;
  int hang_ms; /* before that */
  int struck;  /* how often it did */
  char below[4000];
};

static volatile struct fault *fault;

__attribute__((constructor)) static void map(void) {
  const char *path = getenv("FAILING_STORAGE");
  const int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0)
    return;
  void *page = mmap(NULL, sizeof *fault, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (page != MAP_FAILED)
    fault = page;
}

static int strikes(unsigned operation, const char *path) {
  if (!fault || !(fault->operations & operation) || !path ||
      strncmp(path, (const char *)fault->below, strlen((const char *)fault->below)) != 0)
    return 0;
  if (fault->hang_ms)
    usleep((useconds_t)fault->hang_ms * 1000);
  __atomic_add_fetch(&fault->struck, 1, __ATOMIC_RELAXED);
  errno = fault->error;
  return errno != 0;
}

static int strikes_fd(unsigned operation, int fd) {
  char link[64], path[4096];
  if (!fault || !(fault->operations & operation))
    return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t bytes = readlink(link, path, sizeof path - 1);
  if (bytes < 0)
    return 0;
  path[bytes] = '\0';
  return strikes(operation, path);
}

static int strikes_at(unsigned operation, int directory, const char *path) {
  return path && path[0] != '/' && directory != AT_FDCWD ? strikes_fd(operation, directory) : strikes(operation, path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static mode_t mode_of(int flags, va_list rest) {
  return flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

#define OPENS(name)                                              \
  int name(const char *path, int flags, ...) {                   \
    va_list rest;                                                \
    va_start(rest, flags);                                       \
    const mode_t mode = mode_of(flags, rest);                    \
    va_end(rest);                                                \
    return strikes(OPEN, path) ? -1 : REAL(name)(path, flags, mode); \
  }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name)                                                                    \
  int name(int directory, const char *path, int flags, ...) {                             \
    va_list rest;                                                                         \
    va_start(rest, flags);                                                                \
    const mode_t mode = mode_of(flags, rest);                                             \
    va_end(rest);                                                                         \
    return strikes_at(OPEN, directory, path) ? -1 : REAL(name)(directory, path, flags, mode); \
  }
OPENS_AT(openat)
OPENS_AT(openat64)

ssize_t read(int fd, void *data, size_t bytes) { return strikes_fd(READ, fd) ? -1 : REAL(read)(fd, data, bytes); }
ssize_t write(int fd, const void *data, size_t bytes) { return strikes_fd(WRITE, fd) ? -1 : REAL(write)(fd, data, bytes); }
int fsync(int fd) { return strikes_fd(FSYNC, fd) ? -1 : REAL(fsync)(fd); }
int rename(const char *old, const char *new) { return strikes(RENAME, new) ? -1 : REAL(rename)(old, new); }
int renameat(int from, const char *old, int to, const char *new) {
  return strikes_at(RENAME, to, new) ? -1 : REAL(renameat)(from, old, to, new);
}

#define STATS(name, type) \
  int name(const char *path, type *status) { return strikes(STAT, path) ? -1 : REAL(name)(path, status); }
STATS(stat, struct stat)
STATS(lstat, struct stat)
STATS(stat64, struct stat64)
STATS(lstat64, struct stat64)
int fstatat(int directory, const char *path, struct stat *status, int flags) {
  return strikes_at(STAT, directory, path) ? -1 : REAL(fstatat)(directory, path, status, flags);
}
int fstatat64(int directory, const char *path, struct stat64 *status, int flags) {
  return strikes_at(STAT, directory, path) ? -1 : REAL(fstatat64)(directory, path, status, flags);
}
int fstat(int fd, struct stat *status) { return strikes_fd(STAT, fd) ? -1 : REAL(fstat)(fd, status); }
int fstat64(int fd, struct stat64 *status) { return strikes_fd(STAT, fd) ? -1 : REAL(fstat64)(fd, status); }

DIR *opendir(const char *path) { return strikes(LIST, path) ? NULL : REAL(opendir)(path); }
DIR *fdopendir(int fd) { return strikes_fd(LIST, fd) ? NULL : REAL(fdopendir)(fd); }
int mkdir(const char *path, mode_t mode) { return strikes(MKDIR, path) ? -1 : REAL(mkdir)(path, mode); }
int mkdirat(int directory, const char *path, mode_t mode) {
  return strikes_at(MKDIR, directory, path) ? -1 : REAL(mkdirat)(directory, path, mode);
}
int chmod(const char *path, mode_t mode) { return strikes(CHMOD, path) ? -1 : REAL(chmod)(path, mode); }
int fchmod(int fd, mode_t mode) { return strikes_fd(CHMOD, fd) ? -1 : REAL(fchmod)(fd, mode); }
int chown(const char *path, uid_t uid, gid_t gid) { return strikes(CHOWN, path) ? -1 : REAL(chown)(path, uid, gid); }
int lchown(const char *path, uid_t uid, gid_t gid) { return strikes(CHOWN, path) ? -1 : REAL(lchown)(path, uid, gid); }
int fchown(int fd, uid_t uid, gid_t gid) { return strikes_fd(CHOWN, fd) ? -1 : REAL(fchown)(fd, uid, gid); }
int unlink(const char *path) { return strikes(UNLINK, path) ? -1 : REAL(unlink)(path); }
int unlinkat(int directory, const char *path, int flags) {
  return strikes_at(UNLINK, directory, path) ? -1 : REAL(unlinkat)(directory, path, flags);
}
