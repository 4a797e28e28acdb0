// Dispatchers of a node with long waits wake at the same moments, so that an idle processor is woken once for all of them.
#pragma once

#include <cstdint>

namespace fikit::dispatcher {

inline constexpr std::int64_t kCommonNs = 100'000'000;
inline constexpr std::int64_t kLongNs = 4 * kCommonNs;

// When a wait of after_ns that begins at from_ns is to end: a long one ends a little earlier than it could.
constexpr std::int64_t coalesced_ns(std::int64_t from_ns, std::int64_t after_ns) {
  const std::int64_t due_ns = from_ns + after_ns;
  return after_ns < kLongNs ? due_ns : due_ns - due_ns % kCommonNs;
}

} // namespace fikit::dispatcher
