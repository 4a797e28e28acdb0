#include "core_wait.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include "types/moments.hpp"

namespace fikit::dispatcher {

CoreWait::~CoreWait() {
  if (fd_ >= 0) close(fd_);
}

void CoreWait::watch(int pid) {
  if (pid <= 0 || fd_ >= 0) return;
  fd_ = open(("/proc/" + std::to_string(pid) + "/schedstat").c_str(), O_RDONLY | O_CLOEXEC);
}

// The file has three numbers: ns on a core, ns runnable without one, times on a core.
std::int64_t CoreWait::total_ns() const {
  std::array<char, 96> text{};
  const ssize_t size = fd_ < 0 ? -1 : pread(fd_, text.data(), text.size(), 0);
  if (size <= 0) return kUnknown;
  const std::string_view line(text.data(), static_cast<std::size_t>(size));
  const std::size_t second = line.find(' ');
  if (second == std::string_view::npos) return kUnknown;
  std::int64_t waited_ns = kUnknown;
  const auto [end, error] = std::from_chars(line.data() + second + 1, line.data() + line.size(), waited_ns);
  return error == std::errc() && waited_ns >= 0 ? waited_ns : kUnknown;
}

} // namespace fikit::dispatcher
