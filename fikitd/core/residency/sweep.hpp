// A plan for a link that is too slow for its budget: the iteration played through, kernels waiting for what they need.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "budget.hpp"
#include "sequence.hpp"

namespace fikit::residency {

// How long a chunk is on its way.
struct ChunkTimes {
  std::int64_t in_ns = 0, out_ns = 0;
};

struct Swept {
  std::vector<Transfer> transfers; // of one iteration; begin_ns with all waits before it
  std::int64_t total_ns = 0;       // an iteration with its waits
  bool steady = false;             // the iteration after it is the same
  std::int64_t peak = 0;           // chunks on the GPU, on the way in or on the way out, at most
};

// Whenever the link is free, what is needed next comes in; for that, or for memory that begins to be used, what is needed last leaves, where that is
// later (Belady's choice, made as early as the link allows). Nothing: a kernel alone needs more than `capacity` chunks, or it would take
// years.
std::optional<Swept> sweep(const Sequence& sequence, const ChunkTimes& chunk, std::int64_t capacity);

} // namespace fikit::residency
