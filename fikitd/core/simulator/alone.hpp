// What a bound of the harvest (fikitd/fikitd/simulation/bound.py) starts from: the high job alone on the device.
//
// Its last kernels before each wait cut its time into intervals. In each of them its host only enqueues, and lower work takes
// from its idle time, or makes its last kernel late.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace.hpp"

namespace fikit::simulator {

// From the end of the last kernel before a wait to the end of the last kernel before the next one.
struct Interval {
  std::int64_t end_ns = 0;
  std::int64_t work_ns = 0; // of its kernels
  std::int64_t tail_ns = 0; // until the wait is over: by so much its last kernel may be late without consequences, at most
};

struct Alone {
  std::vector<Interval> intervals;
  std::int64_t span_ns = 0;     // until the last request has ended
  std::int64_t response_ns = 0; // of all requests together
};

// Requests as of JobOptions::arrivals.
Alone alone(const Trace& trace, std::size_t requests, const std::vector<std::int64_t>& arrivals);

} // namespace fikit::simulator
