// What sharing itself costs, in ns, as parameters of a simulation. Never zero by default: without them policies that
// hold many kernels for a short time would look better than they are.
#pragma once

#include <cstdint>

namespace fikit::simulator {

struct Costs {
  // A launch through an open gate: `python -m bench launch`, added time, median.
  std::int64_t launch_ns = 50;
  // From a client's note on its page to the decision that knows of it: a spinning dispatcher's round. Assumed: `bench
  // dispatch` shows some 10 us more where the dispatcher sleeps in slices ("hand over" less "wake").
  std::int64_t observe_ns = 2'000;
  // From a grant to the call that it lets through, for a client that sleeps: `python -m bench dispatch`, "wake", median
  // 11 to 13 us on two busy cores; 10 us for one that spins.
  std::int64_t wake_ns = 13'000;
  // From a granted kernel's end to the note that it is complete.
  std::int64_t done_ns = 5'000;
  // From the moment at which a decision is due without a note to that decision. As for a note: a dispatcher that spins.
  std::int64_t late_ns = 2'000;
};

} // namespace fikit::simulator
