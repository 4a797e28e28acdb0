// Which of the lower jobs have their memory on the GPU in the next epoch, where not all of them fit at once (case A of docs/design/residency.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "link.hpp"

namespace fikit::residency {

// A lower job, or one of its processes, as the choice sees it.
struct Tenant {
  std::int64_t bytes = 0;          // that it needs on the GPU to run without misses: its working set, or its budget (budget.hpp)
  std::int64_t resident_bytes = 0; // that it has there; may be more than it needs
  double work = 0;                 // share of the time in which it is predicted to use the device while it runs, 0 to 1
  std::int64_t waited_ns = 0;      // since it ran last; 0 for one that runs
  bool runs = false;               // it was chosen for the epoch that ends
  std::int64_t ran_ns = 0;         // for how long one that runs has done so without a pause, which may be some epochs
};

struct EpochRules {
  Link link;                      // one direction at a time: both at once gain nothing on the GPUs that were measured
  std::int64_t beside_ns = 0;     // what a change takes beside its transfers: steps that are seen late, pieces that wait for copies
  double most_lost = 0.10;        // share of the time that changes may take; the length of an epoch follows from it
  double hysteresis = 0.10;       // a newcomer must be worth so much more than a tenant that makes room for it; wears off in patience_ns
  std::int64_t least_epoch_ns = 30'000'000'000;
  std::int64_t patience_ns = 60'000'000'000;  // the work of a tenant that has waited so long counts twice
  std::int64_t max_wait_ns = 300'000'000'000; // one that has waited so long runs before all that have not
};

struct Move {
  std::size_t tenant = 0;
  std::int64_t bytes = 0;
  bool in = false;    // from the host to the GPU
  bool ahead = false; // made while the old epoch still runs: out, of a tenant of neither epoch; in, into room that is free
};

struct Epoch {
  std::vector<bool> runs;         // by tenant
  std::vector<Move> moves;        // in the order in which they are made
  std::int64_t swap_ns = 0;       // c: time of the moves that are not made ahead, with beside_ns; 0: there are none
  std::int64_t length_ns = 0;     // E: for so long the chosen tenants run, after the moves
};

// The next epoch. Room: bytes of the GPU that lower jobs may hold. A tenant with more bytes than room is never chosen.
// Tenants that have waited for max_wait_ns are taken first, the longest wait first. The room that is left goes to the set of others whose work, weighted by their
// wait, is most: the best of all sets where there are few tenants, by work per byte where there are many.
// Raises std::invalid_argument: a negative number, a share out of range, a rate of the link that is not positive.
Epoch next_epoch(const EpochRules& rules, std::int64_t room_bytes, std::span<const Tenant> tenants);

// A bound: of so many tenants, none that has work and fits waits longer for its turn. It holds where no epoch is longer than next_epoch() says, and the room does not
// become smaller.
std::int64_t longest_wait_ns(const EpochRules& rules, std::int64_t room_bytes, std::size_t tenants);

} // namespace fikit::residency
