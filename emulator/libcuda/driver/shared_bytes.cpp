#include "libcuda/driver/shared_bytes.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "libcuda/driver/objects.hpp"

namespace emu {
namespace {

constexpr uint64_t kMagic = 0x454d5553'48415245;  // "EMUSHARE"
constexpr uint64_t kPage = 65536;  // a multiple of every page size in use
// A file that could still shrink would kill whoever maps it.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

uint64_t label_offset(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

SharedBytes SharedBytes::create(uint64_t bytes, const CUuuid& device) {
  const int fd = memfd_create("emucuda", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  require(fd >= 0, CUDA_ERROR_OUT_OF_MEMORY);
  SharedBytes made(fd, {kMagic, 0, bytes, device});
  const uint64_t offset = label_offset(bytes);
  const bool ready = getrandom(&made.label_.id, sizeof made.label_.id, 0) == sizeof made.label_.id &&
                     ftruncate(fd, static_cast<off_t>(offset + kPage)) == 0 &&
                     pwrite(fd, &made.label_, sizeof made.label_, static_cast<off_t>(offset)) == sizeof made.label_ &&
                     fcntl(fd, F_ADD_SEALS, kSeals) == 0;
  require(ready, CUDA_ERROR_OUT_OF_MEMORY);
  return made;
}

std::optional<SharedBytes> SharedBytes::adopt(int fd) {
  SharedBytes found(fd, {});
  struct stat info {};
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(fd, &info) != 0) return std::nullopt;
  const off_t offset = info.st_size - static_cast<off_t>(kPage);
  const bool labelled = offset >= 0 && pread(fd, &found.label_, sizeof found.label_, offset) == sizeof found.label_ &&
                        found.label_.magic == kMagic && label_offset(found.label_.bytes) == static_cast<uint64_t>(offset);
  if (!labelled) return std::nullopt;
  return found;
}

std::optional<SharedBytes> SharedBytes::open(pid_t pid, int fd) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  const int opened = ::open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0) return std::nullopt;
  return adopt(opened);
}

SharedBytes::SharedBytes(SharedBytes&& other) noexcept : fd_(std::exchange(other.fd_, -1)), label_(other.label_) {}

SharedBytes::~SharedBytes() {
  if (fd_ >= 0) close(fd_);
}

int SharedBytes::give_up() { return std::exchange(fd_, -1); }

void* SharedBytes::map(uint64_t bytes, int protection, void* at) const {
  void* memory = mmap(at, bytes, protection, MAP_SHARED | (at == nullptr ? 0 : MAP_FIXED), fd_, 0);
  require(memory != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  return memory;
}

}  // namespace emu
