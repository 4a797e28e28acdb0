// Kernels of the test suites that do something, so that order and loss of launches can be checked end to end.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>

namespace emu {

// A launch's parameters, in either of the two forms the API has.
class Arguments {
 public:
  Arguments(void** pointers, const char* buffer) : pointers_(pointers), buffer_(buffer) {}
  bool given() const { return pointers_ != nullptr || buffer_ != nullptr; }
  // Parameter `index`, which the buffer form has at `offset`.
  template <typename T>
  T get(int index, size_t offset) const {
    T value;
    memcpy(&value, pointers_ != nullptr ? pointers_[index] : buffer_ + offset, sizeof value);
    return value;
  }

 private:
  void** pointers_;
  const char* buffer_;
};

// When a work's turn came first, and when it was done, on the device's clock; 0 of one that was dropped.
struct Ran {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// Makes a launch's effect, which runs when the model completes the kernel.
using KernelEffect = std::function<void(const Ran&)> (*)(const Arguments& arguments);

// Null for every kernel but emu_increment(uint32_t* p), emu_check_order(uint32_t* p, uint32_t expected) and fikit_stamp(uint64_t ns,
// int64_t* stamps, ...), which stores its begin and its end as %globaltimer has them.
KernelEffect test_kernel_effect(const std::string& name);

}  // namespace emu
