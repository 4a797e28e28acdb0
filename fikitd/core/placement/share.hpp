// Share a GPU now, or wait? Theorem 1 of SJF-BSBF (arXiv 2407.13088) for jobs of which one goes first. docs/design/placement.md derives it.
#pragma once

namespace fikit::placement {

// Two jobs on one GPU from now on. Rests are seconds that a job would still take alone; slowdowns are >= 1.
struct Couple {
  double high_rest_s = 0;
  double low_rest_s = 0;
  double high_slowdown = 1;
  double low_slowdown = 1;
};

// When the two end, if they share from now on until one of them ends: the sum of both ends (the mean of both is half of it), and
// the later one. Seconds from now.
double shared_sum_s(const Couple& couple);
double shared_last_s(const Couple& couple);

// Is the sum of both ends smaller when the new job shares from now on than when it waits for the running one's end, or for a
// GPU that is free in wait_s seconds (infinity: none is)?
bool gains(const Couple& couple, bool new_is_high, double wait_s);

// Is the sum of both ends smaller with the new job high than with the running one high? The same two jobs, with the slowdowns that
// each order means.
bool new_should_be_high(const Couple& new_high, const Couple& running_high);

} // namespace fikit::placement
