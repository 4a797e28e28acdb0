#include "kernel.hpp"

#include <string_view>

namespace fikit::predictor {
namespace {

class Fnv1a {
 public:
  void bytes(std::string_view text) {
    for (const char c : text) byte(static_cast<unsigned char>(c));
  }
  template <class Integer>
  void integer(Integer value) { // little-endian on every machine
    for (unsigned i = 0; i < sizeof(value); ++i) byte(static_cast<unsigned char>(value >> (8 * i)));
  }
  std::uint64_t value() const { return hash_; }

 private:
  void byte(unsigned char b) { hash_ = (hash_ ^ b) * 0x100000001b3U; }
  std::uint64_t hash_ = 0xcbf29ce484222325U;
};

} // namespace

Identity identify(const Kernel& kernel) {
  Fnv1a hash;
  hash.bytes(kernel.name);
  hash.integer(std::uint8_t{0});
  hash.integer(kernel.module_hash);
  for (const std::uint32_t n : kernel.grid) hash.integer(n);
  for (const std::uint32_t n : kernel.block) hash.integer(n);
  hash.integer(kernel.shared_bytes);
  return hash.value() == 0 ? 1 : hash.value();
}

} // namespace fikit::predictor
