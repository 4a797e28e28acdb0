// Opening what several processes share under /dev/shm.
#pragma once

#include <sys/stat.h>

#include <string>

namespace emu {

// An open file, locked by its user (flock) or not; unlocked and closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// Two steps, because a plain O_CREAT may not open another user's file in /dev/shm (fs.protected_regular).
int open_or_create(const std::string& name, mode_t mode);

}  // namespace emu
