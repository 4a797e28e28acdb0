// What an oracle knows: a job's pass alone, kernel by kernel. No predictor reaches it; it bounds what prediction can gain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace.hpp"

namespace fikit::simulator {

struct Deed;

struct Truth {
  struct Launch {
    std::int64_t slack_ns = 0;
    // If the host waits next: of the segment that ends there, and of the one that follows.
    std::int64_t span_ns = -1;
    std::int64_t tail_ns = -1;
    std::int64_t after_ns = 0;
    std::int64_t idle_ns = 0;
    std::int64_t next_slack_ns = 0;
  };
  std::vector<Launch> launches; // by step
};

// From the deeds of a run alone, of two passes at least.
Truth truth_of(const Trace& trace, const std::vector<Deed>& deeds);

} // namespace fikit::simulator
