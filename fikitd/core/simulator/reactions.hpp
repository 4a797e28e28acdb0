// How long the dispatcher takes to react, time after time: always as long as Costs say, or as it was seen to take, in an order
// that one number decides.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "costs.hpp"

namespace fikit::simulator {

// By the members of Costs and the host of a job, in ns, equally probable; empty: nothing was seen.
struct Reactions {
  std::vector<std::int64_t> observe_ns;
  std::vector<std::int64_t> wake_ns;
  std::vector<std::int64_t> done_ns;
  std::vector<std::int64_t> late_ns;
  // Not the dispatcher's: from the end of a request to its host's next call, where the next request waits already.
  std::vector<std::int64_t> turn_ns;
  std::uint32_t draw = 1; // which order
};

class Reaction {
 public:
  // usual_ns: where nothing was seen.
  Reaction(std::int64_t usual_ns, std::vector<std::int64_t> seen_ns, std::uint32_t draw)
      : usual_ns_(usual_ns), seen_ns_(std::move(seen_ns)), dice_(draw) {}

  std::int64_t next_ns() { return seen_ns_.empty() ? usual_ns_ : seen_ns_[dice_() % seen_ns_.size()]; }

 private:
  std::int64_t usual_ns_;
  std::vector<std::int64_t> seen_ns_;
  std::mt19937 dice_;
};

} // namespace fikit::simulator
