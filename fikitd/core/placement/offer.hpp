// May a new job start on this GPU now, and what does that cost and give? The rule that cluster simulator, advice and agent use.
#pragma once

#include <cstddef>
#include <span>

#include "history.hpp"
#include "slowdowns.hpp"

namespace fikit::placement {

// One job as a choice sees it.
struct Resident {
  double rest_s = 0; // expected, alone on a GPU
  Load load;
  int shards = 1; // of GPU memory, GiB
};

struct Rules {
  Priorities priorities = Priorities::automatic; // ordered means: the shorter rest before the longer one
  std::size_t most = 2;       // jobs on a GPU; 0: as many as memory has room for
  bool must_gain = true;      // only where the sum of all ends becomes smaller than by waiting
  bool waits_for_free = true; // the new job could also have the next GPU that is free
  // A second that the GPU is free sooner than with one job after the other is worth so many seconds of those who come later.
  double saved_worth = 0;
  double most_busy = 0;       // the sum of busy shares may not be larger; 0: no such rule
};

enum class Verdict {
  idle,      // nobody is there
  shares,    // beside those who are there
  no_memory, // shards are missing
  full,      // Rules::most jobs are there
  too_busy,  // Rules::most_busy
  slower,    // sharing would make the sum of ends larger, or nobody knows: a rest without end
};

struct Ends {
  double sum_s = 0;
  double last_s = 0;
  Priorities priorities = Priorities::equal; // what Priorities::automatic came to; others stay themselves
};

// When all jobs end that run on one GPU from now on, seconds from now, if nobody comes. At most kMostResidents jobs.
// ends_s: empty, or the end of each.
Ends replay(const Slowdowns& slowdowns, Priorities priorities, std::span<const Resident> jobs, std::span<double> ends_s = {});

struct Offer {
  Verdict verdict = Verdict::idle;
  double end_s = 0;  // the new job's expected end, seconds from now
  double gain_s = 0; // by how much the sum of all ends is smaller than by waiting, and what the GPU's time saved is worth
  double slowdown_new = 1; // at the beginning
  double slowdown_worst = 1; // of those who are there already, the worst

  bool accepted() const { return verdict == Verdict::idle || verdict == Verdict::shares; }
};

// free_shards: of this GPU. wait_s: until a GPU is expected to be free (infinity: never). without: what replay() says of the residents
// alone, where the caller knows it already.
Offer consider(const Slowdowns& slowdowns, const Rules& rules, const Resident& job, std::span<const Resident> residents,
               int free_shards, double wait_s, const Ends* without = nullptr);

// Shards of a job whose runs needed so many bytes at most: a tenth more, rounded up, at least 1. Raises std::invalid_argument.
int shards_for(double peak_bytes);

// A job that does not fit can be run with smaller steps: of memory = fixed + per_sample x batch, known from two runs.
struct SubBatch {
  int batch = 0; // samples at a time; 0: not even one fits
  int steps = 0; // of gradient accumulation, so that the whole batch is as before
};
// Raises std::invalid_argument: the two batches are the same or not positive, or memory does not grow with the batch.
SubBatch sub_batch(int batch_1, double peak_bytes_1, int batch_2, double peak_bytes_2, double free_bytes, int wanted_batch);

} // namespace fikit::placement
