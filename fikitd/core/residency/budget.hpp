// A job with less room on the GPU than it touches (case B of docs/design/residency.md): which chunk leaves when, and comes back when. TENSILE's greedy
// plan (arXiv 2105.13336), for chunks of an unmodified program's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "link.hpp"
#include "sequence.hpp"

namespace fikit::residency {

// A copy of one chunk, in every iteration. It begins delay_ns after the end of `kernel`: of this iteration, or, where the kernel ends later than begin_ns, of the
// one before.
struct Transfer {
  Chunk chunk = 0;
  bool in = false; // from the host to the GPU
  std::size_t kernel = 0;
  std::int64_t delay_ns = 0;
  std::int64_t begin_ns = 0; // from the beginning of the iteration
};

struct BudgetPlan {
  std::vector<Transfer> transfers; // in the order of one iteration
  std::int64_t peak_bytes = 0;     // that are on the GPU at most, by this plan
  std::int64_t moved_bytes = 0;    // in one iteration, both directions
  double stretch = 0;              // share by which an iteration becomes longer, because kernels wait for transfers
  bool fits = false;               // the peak is within the budget
  bool steady = true;              // each iteration with these transfers leaves the memory as the next one needs it
};

// The plan for a budget. Without transfers where all fits; without a stretch where the greedy plan keeps the budget; else the plan of sweep.hpp. Where
// a kernel alone touches more than the budget it is the greedy plan as far as that came, with `fits` false: the rest comes by page faults.
// Raises std::invalid_argument: a sequence of no time, chunks or a budget of no bytes, chunks above 4 GiB, a rate of the link that is not positive, a
// negative lead.
BudgetPlan plan(const Sequence& sequence, const Link& link, std::int64_t chunk_bytes, std::int64_t budget_bytes);

std::int64_t peak_bytes(const Sequence& sequence, std::int64_t chunk_bytes);  // without any transfer
std::int64_t least_bytes(const Sequence& sequence, std::int64_t chunk_bytes); // the most that one kernel touches: no smaller budget can be kept

// Why a plan is made anew.
enum class Again { no, drift, misses, budget };
struct Planned {
  std::int64_t iteration_ns = 0;
  std::int64_t budget_bytes = 0;
};
struct Observed {
  std::int64_t iteration_ns = 0; // mean of the last ones
  std::int64_t touched_bytes = 0;
  std::int64_t missed_bytes = 0; // the part of them that was not on the GPU when a kernel touched it
  std::int64_t budget_bytes = 0;
};
inline constexpr double kDrift = 0.30;
inline constexpr double kMisses = 0.05;
Again plan_again(const Planned& planned, const Observed& observed);

// One budget of a job, and what it costs.
struct Point {
  std::int64_t bytes = 0;
  double lost = 0; // of its work, in whatever unit all jobs have
};
// Which point each job gets, so that all of them fit into the room together and the sum of what they lose is least. Empty: not even the smallest points fit.
// Raises std::invalid_argument: no point, negative bytes, a cost that is no number.
std::vector<std::size_t> share_room(std::span<const std::vector<Point>> jobs, std::int64_t room_bytes);

} // namespace fikit::residency
