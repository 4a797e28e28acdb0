// What a client says of its memory that moves.
#pragma once

#include <cstdint>

namespace fikit::tracking {

// What of the client's memory may leave the GPU and where it is, as the client says it (struct fikit_moves). Each number is bounded; none
// need agree with another one.
struct Moves {
  std::uint32_t goal = 0;    // the newest that it was given; 0: none
  std::uint32_t reached = 0; // the newest that it has done what it can for
  std::uint64_t movable_bytes = 0;
  std::uint64_t resident_bytes = 0;
  std::uint64_t in_bytes = 0;
  std::uint64_t out_bytes = 0;
  std::uint64_t missed_bytes = 0;
  std::uint64_t moving_ns = 0;
  std::uint32_t turns = 0;
  std::uint32_t failures = 0;
};

} // namespace fikit::tracking
