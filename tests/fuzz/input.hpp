// The bytes of an input, taken one value after the other; behind the last one everything is 0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace fikit::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  template <class T>
  T take() {
    T value{};
    const std::size_t bytes = std::min(sizeof value, left_);
    if (bytes > 0) std::memcpy(&value, data_, bytes);
    data_ += bytes;
    left_ -= bytes;
    return value;
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

inline void check(bool condition) {
  if (!condition) std::abort();
}

} // namespace fikit::fuzz
