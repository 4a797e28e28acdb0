// Copies of a client between host and device: when will it copy next in that direction, and how long does one of its copies
// take? A place in the program is known by the sizes, as powers of two, of the last three copies, and where these were never
// seen by that of the last one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "recent.hpp"

namespace fikit::predictor {

// Of one direction.
class Copies {
 public:
  static constexpr std::size_t kMaxPlaces = 4096; // a program that never repeats itself cannot fill the daemon's memory

  // One of so many bytes was handed over at t_ns. Until the next one.
  TimeQuantiles copied(std::int64_t t_ns, std::uint64_t bytes);

  // Such a copy took so long, waiting for others perhaps.
  void took(std::uint64_t bytes, std::int64_t ns);
  std::int64_t expected_ns(std::uint64_t bytes) const;

 private:
  double ns_per_byte() const;
  void learn(std::uint32_t place, std::int64_t idle_ns);

  std::unordered_map<std::uint32_t, Recent> until_next_; // by place
  std::uint32_t last_three_ = 0; // sizes; 0: there was none
  std::int64_t last_ns_ = 0;
  Recent rates_; // thousandths of a nanosecond for a thousand bytes
};

} // namespace fikit::predictor
