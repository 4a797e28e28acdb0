/* Identifies a file by device and inode. By raw system calls: glibc has stat() only since 2.33, and older sandboxes forbid statx. */
#ifndef FIKIT_SHIM_FILE_ID_H
#define FIKIT_SHIM_FILE_ID_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct fikit_file_id {
  dev_t device;
  ino_t inode; /* 0: no such file */
};

static inline bool fikit_same_file(struct fikit_file_id a, struct fikit_file_id b) {
  return a.inode != 0 && a.inode == b.inode && a.device == b.device;
}

static inline struct fikit_file_id fikit_file_id(int fd) {
  struct stat file;
  if (syscall(SYS_fstat, fd, &file) != 0)
    return (struct fikit_file_id){0, 0};
  return (struct fikit_file_id){file.st_dev, file.st_ino};
}

/* `regular` receives whether it is a regular file. */
static inline struct fikit_file_id fikit_file_id_of_path(const char *path, bool *regular) {
  struct stat file;
  *regular = false;
  if (syscall(SYS_newfstatat, AT_FDCWD, path, &file, 0) != 0)
    return (struct fikit_file_id){0, 0};
  *regular = S_ISREG(file.st_mode);
  return (struct fikit_file_id){file.st_dev, file.st_ino};
}

#endif
