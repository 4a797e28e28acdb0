#include "liveness.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace emu {

uint64_t process_start(pid_t pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[1024];
  const ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return 0;
  text[n] = '\0';
  // The command name may hold spaces and parentheses: the fields begin after the last one.
  const char* field = strrchr(text, ')');
  if (field == nullptr || field[1] == '\0' || field[2] == 'Z' || field[2] == 'X') return 0;
  for (int skip = 0; skip < 20 && field != nullptr; ++skip) field = strchr(field + 1, ' ');
  return field == nullptr ? 0 : strtoull(field, nullptr, 10);
}

}  // namespace emu
