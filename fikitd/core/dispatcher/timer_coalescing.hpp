// The dispatchers of a node that wait for long wake at the same moments: the processor does not leave its sleep for each of them.
#pragma once

#include <cstdint>

namespace fikit::dispatcher {

inline constexpr std::int64_t kCommonNs = 100'000'000;
inline constexpr std::int64_t kLongNs = 4 * kCommonNs;

// When to wake who waits from then on for so long: a long wait ends a little earlier.
constexpr std::int64_t coalesced_ns(std::int64_t from_ns, std::int64_t after_ns) {
  const std::int64_t due_ns = from_ns + after_ns;
  return after_ns < kLongNs ? due_ns : due_ns - due_ns % kCommonNs;
}

} // namespace fikit::dispatcher
