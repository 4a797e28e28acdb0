// Bytes that other processes can map: a sealed memfd whose last page says what it is.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "libcuda/driver/driver_api.hpp"

namespace emu {

class SharedBytes {
 public:
  // Throws Failure{OUT_OF_MEMORY}.
  static SharedBytes create(uint64_t bytes, const CUuuid& device);
  // What somebody else's descriptor refers to; takes the descriptor over. None: it is not of this emulator.
  static std::optional<SharedBytes> adopt(int fd);
  // Descriptor `fd` of process `pid`, which the kernel lets only its own user open.
  static std::optional<SharedBytes> open(pid_t pid, int fd);
  SharedBytes(SharedBytes&& other) noexcept;
  SharedBytes(const SharedBytes&) = delete;
  SharedBytes& operator=(const SharedBytes&) = delete;
  ~SharedBytes();

  // `protection` as of mmap; at a fixed address when one is given. Throws Failure{OUT_OF_MEMORY}.
  void* map(uint64_t bytes, int protection, void* at = nullptr) const;
  int fd() const { return fd_; }
  // The owner closes the descriptor from now on.
  int give_up();
  uint64_t bytes() const { return label_.bytes; }
  // Different for every creation on this node.
  uint64_t id() const { return label_.id; }
  const CUuuid& device() const { return label_.device; }

 private:
  struct Label {
    uint64_t magic;
    uint64_t id;
    uint64_t bytes;
    CUuuid device;
  };
  SharedBytes(int fd, const Label& label) : fd_(fd), label_(label) {}

  int fd_;
  Label label_;
};

}  // namespace emu
