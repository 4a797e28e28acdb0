// The figures of a client's report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "moves.hpp"
#include "wait_book.hpp"

namespace fikit::tracking {

// See docs/design/contracts.md, "Report records". Times in ns.
struct Stats {
  std::uint64_t kernels = 0;
  std::optional<double> gpu_time_ns; // nothing: no profile or measurement knows the kernels
  std::uint64_t untimed = 0;         // launches of kernels that nothing has timed
  std::uint64_t beside = 0;          // launches of kernels that were timed only beside others, whose work is in these times
  std::uint64_t doubtful = 0;        // launches of kernels of which the shim could not say well how long they run
  std::uint64_t distinct = 0;        // kernels that it launched, each counted once
  std::uint64_t distinct_profiled = 0; // of these, known from runs with its arguments,
  std::uint64_t distinct_borrowed = 0; // and from runs of the same program with others
  std::uint64_t unfinished = 0;      // launches that are not known to be complete
  std::int64_t span_ns = 0;          // first launch to last known drain, without boundaries
  std::int64_t under_way_ns = 0;     // the same up to now, where something is not known to be complete: it used the GPU for no longer
  std::optional<double> solo_ns;
  std::uint64_t wait_count = 0;
  std::uint64_t wait_total_ns = 0;
  double wait_p99_ns = 0;
  std::uint64_t gaps_offered = 0;
  std::uint64_t gaps_filled = 0;
  std::uint64_t others_kernels = 0;
  std::int64_t predicted_gap_ns = 0; // sums over offered gaps
  std::int64_t actual_gap_ns = 0;
  double gap_error_p50_ns = 0;
  double gap_error_p90_ns = 0;
  std::uint64_t expired = 0;
  std::uint64_t drifted = 0; // kernels that came to take 30 % more or less than their profile says
  struct Held {
    WaitSum sum;
    std::string kernel;                // its own; "" where it does not matter, or is not known
    std::optional<double> p90_ns;      // of that kernel
  };
  Spent spent;            // where its time went
  std::vector<Held> held; // what its waits are put down to, in no order
  Moves moves;                // its memory that may leave the GPU; all 0: it has none
  std::int64_t heard_ns = 0; // as its dispatcher has it: one and the same for all whose news one round found
};

} // namespace fikit::tracking
