// Which waiting job is first: the shortest expected one, unless somebody has waited for too long.
#pragma once

namespace fikit::placement {

// Has the job waited so long that it is nobody's to pass any more? Such jobs come before all others, in the order in which they came.
// Seconds; max_wait_s infinity: never.
inline bool overdue(double submit_s, double now_s, double max_wait_s) { return now_s - submit_s >= max_wait_s; }

// Is the first of two waiting jobs before the second? Of two that have not waited too long the one with the shorter expected run time.
struct Waiting {
  double submit_s = 0;
  double expected_s = 0;
};
inline bool before(const Waiting& first, const Waiting& second, double now_s, double max_wait_s) {
  const bool first_overdue = overdue(first.submit_s, now_s, max_wait_s);
  const bool second_overdue = overdue(second.submit_s, now_s, max_wait_s);
  if (first_overdue != second_overdue) return first_overdue;
  return first_overdue ? first.submit_s < second.submit_s : first.expected_s < second.expected_s;
}

} // namespace fikit::placement
