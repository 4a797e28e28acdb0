#include "shared_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace emu {

Descriptor::~Descriptor() {
  if (fd_ < 0) return;
  flock(fd_, LOCK_UN);  // closing is not enough: the mapping keeps the open file, and with it the lock
  close(fd_);
}

int open_or_create(const std::string& name, mode_t mode) {
  const std::string path = "/" + name;
  for (;;) {
    int fd = shm_open(path.c_str(), O_RDWR | O_CLOEXEC, 0);
    if (fd >= 0 || errno != ENOENT) return fd;
    fd = shm_open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd >= 0) fchmod(fd, mode);  // the umask must not take away what access = "all" gives
    if (fd >= 0 || errno != EEXIST) return fd;
  }
}

}  // namespace emu
