// The last few times of something: what has changed is forgotten soon.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "types/time_quantiles.hpp"

namespace fikit::predictor {

// What is kept of times in a profile: how many there were, and up to Times::kCount of them that stand for all, ascending.
struct Sketch {
  std::uint64_t count = 0;
  std::vector<std::int64_t> ns;
};

class Recent {
 public:
  void add(std::int64_t ns);
  bool known() const { return count_ > 0; }
  TimeQuantiles times() const;

  // Begin with these, if there is none yet. Its own times take their place one by one, the middle ones' first.
  void expect(const Sketch& before, std::int64_t lowest_ns = 0);
  bool confirmed() const { return own_ > 1; }
  Sketch sketch() const; // of its own times

 private:
  std::array<float, TimeQuantiles::kCount> ns_{};
  std::uint8_t count_ = 0;
  std::uint8_t next_ = 0;
  std::uint8_t own_ = 0; // of these, the newest ones
};

} // namespace fikit::predictor
