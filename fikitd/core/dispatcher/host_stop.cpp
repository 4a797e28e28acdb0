#include "host_stop.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>

namespace fikit::dispatcher {
namespace {

// The file's beginning; "" where it cannot be read.
std::string beginning(const std::string& path) {
  std::array<char, 4096> text{};
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t size = read(fd, text.data(), text.size());
  close(fd);
  return size <= 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(size));
}

// The state of the main thread stands behind its name, which may have any character.
bool stopped_by_signal(int pid) {
  const std::string text = beginning("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return false;
  const char state = text[name_end + 2];
  return state == 'T' || state == 't';
}

// Each line of the file is `number:controllers:path`; the unified hierarchy has the number 0.
bool frozen(int pid) {
  const std::string text = beginning("/proc/" + std::to_string(pid) + "/cgroup");
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() == rest.size() ? line.size() : line.size() + 1);
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    if (controllers.empty() && beginning("/sys/fs/cgroup" + path + "/cgroup.events").find("frozen 1") != std::string::npos) return true;
    if (controllers == "freezer" && beginning("/sys/fs/cgroup/freezer" + path + "/freezer.state").starts_with("FROZEN")) return true;
  }
  return false;
}

} // namespace

bool is_stopped(int pid) { return pid > 0 && (stopped_by_signal(pid) || frozen(pid)); }

} // namespace fikit::dispatcher
