// A client's word on its memory that may leave the GPU.
#pragma once

#include <cstdint>

namespace fikit::tracking {

// As the client wrote it on its page (struct fikit_moves). Each number is bounded, but a client can write numbers that do not fit together.
struct Moves {
  std::uint32_t goal = 0;    // number of the newest goal that it was given; 0: none
  std::uint32_t reached = 0; // number of the newest goal for which it has done what it can
  std::uint64_t movable_bytes = 0;
  std::uint64_t resident_bytes = 0;
  std::uint64_t in_bytes = 0;
  std::uint64_t out_bytes = 0;
  std::uint64_t missed_bytes = 0;
  std::uint64_t moving_ns = 0;
  std::uint32_t turns = 0;
  std::uint32_t failures = 0;
  std::uint64_t most_bytes = 0; // of movable_bytes, lately
  std::int64_t most_at_ns = 0;  // when there were last so many; CLOCK_MONOTONIC
  std::uint64_t in_per_s = 0;   // bytes that its plan's moves take of the device in a second, by direction; 0: not known
  std::uint64_t out_per_s = 0;
};

} // namespace fikit::tracking
