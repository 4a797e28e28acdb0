// What a kernel is called by, from run to run (D9), and the last few of them as context.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>

namespace fikit::predictor {

using Identity = std::uint64_t; // 0 = not described
inline constexpr int kContext = 3;

struct Kernel {
  std::string name;
  std::uint64_t module_hash = 0;
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::array<std::uint32_t, 3> block{1, 1, 1};
  std::uint32_t shared_bytes = 0;
  std::uint32_t kind = 0; // as fikit_protocol.h has it; carried along, not part of the identity
};

// 64-bit FNV-1a over name, module, grid, block and dynamic shared bytes: written into profiles, so it never changes.
// Never 0.
Identity identify(const Kernel& kernel);

// The identities launched before the next one, oldest first; 0 where there was none.
struct Context {
  std::array<Identity, kContext> last{};
  auto operator<=>(const Context&) const = default;
  void push(Identity identity) { last = {last[1], last[2], identity}; }
  bool full() const { return depth() == kContext; }
  int depth() const { // how many of the newest are known
    int known = 0;
    while (known < kContext && last[kContext - 1 - known] != 0) ++known;
    return known;
  }
  Context newest(int n) const { // the same with the older ones forgotten
    Context shorter;
    for (int i = kContext - n; i < kContext; ++i) shorter.last[i] = last[i];
    return shorter;
  }
};

} // namespace fikit::predictor
