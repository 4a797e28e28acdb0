// What a bound of the harvest starts from: the high job and a low job, each alone on the device.
//
// No kernel of another job can be on the device at the moment at which one of the high job's ends. So its last kernels before
// each wait cut time into intervals, and every lower kernel is in exactly one of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace.hpp"

namespace fikit::simulator {

// Of the high job: from the end of the last kernel before a wait to the end of the last kernel before the next one.
struct Interval {
  std::int64_t end_ns = 0;  // alone
  std::int64_t paying_end_ns = 0; // the same, but each launch costs what it does with fikit
  std::int64_t work_ns = 0; // of its kernels
  std::int64_t tail_ns = 0; // until the wait is over: by so much its last kernel may be late without consequences, at most
  double weight = 1;        // so many responses, at least, are late by a delay in it
};

struct AloneHigh {
  std::vector<Interval> intervals;
  std::int64_t span_ns = 0;     // until the last request has ended
  std::int64_t response_ns = 0; // of all requests together
};

// Requests as of JobOptions::arrivals. With arrivals a delay counts once for its request and for each that waits behind it
// even when the job is alone.
AloneHigh alone_high(const Trace& trace, std::size_t requests, const std::vector<std::int64_t>& arrivals);

// Of a low job, in the order of its launches.
struct LowKernel {
  std::int64_t length_ns = 0;
  std::int64_t pause_ns = 0; // so long, at least, after the end of all before it: its host waited for them, and then computed
};

// One pass, as it follows another one, on the device of that high job.
std::vector<LowKernel> alone_low(const Trace& trace, const Trace& high);

} // namespace fikit::simulator
