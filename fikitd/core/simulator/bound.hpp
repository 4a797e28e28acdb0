// An upper bound of what any policy that grants whole kernels can give to one low job, whatever it knows.
//
// The high job's intervals (alone.hpp) are gone through in their order, and for each place in the low job's order it is known
// what the best way there has cost the high job. Left out is only what would make things worse: what sharing itself costs,
// the place of a kernel within its interval, and what lateness does beyond the wait at which it is felt.
// docs/scheduling-results.md says why that is a bound.
#pragma once

#include <cstdint>
#include <span>

#include "alone.hpp"

namespace fikit::simulator {

// The most that [device time of the low job] - price * [delay of the high one, weighted] can be. So whoever delays the high
// job by d at most gives the low one no more than this + price * d, whatever the price; it is at least 1.
// pass: the low job repeats it for ever. longest_delay_ns: of all delays together, where more is of no interest.
double most_work_ns(std::span<const Interval> high, std::span<const LowKernel> pass, double price,
                    std::int64_t longest_delay_ns);

} // namespace fikit::simulator
