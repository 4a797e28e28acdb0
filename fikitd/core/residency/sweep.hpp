// A plan for a link that is too slow for its budget: the iteration played through, kernels waiting for what they need.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "budget.hpp"
#include "sequence.hpp"

namespace fikit::residency {

// How long the transfer of a chunk takes.
struct ChunkTimes {
  std::int64_t in_ns = 0, out_ns = 0;
};

struct Swept {
  std::vector<Transfer> transfers; // of one iteration; begin_ns with all waits before it
  std::int64_t total_ns = 0;       // an iteration with its waits
  bool steady = false;             // the next iteration is the same
  std::int64_t peak = 0;           // chunks on the GPU, on the way in or on the way out, at most
};

// Whenever the link is free, the chunk that is needed next comes in. Where it needs room, or memory that begins to be used does, the chunk that is needed last
// leaves, if that is needed later (Belady's choice, made as early as the link allows). Nothing: a kernel alone needs more than `capacity` chunks, or the plan
// would take years.
std::optional<Swept> sweep(const Sequence& sequence, const ChunkTimes& chunk, std::int64_t capacity);

} // namespace fikit::residency
