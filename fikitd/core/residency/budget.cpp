#include "budget.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

#include "lane.hpp"
#include "sweep.hpp"

namespace fikit::residency {
namespace {

// The time between two kernels that touch a chunk, in which it may be away. `to` counts on into the next iteration.
struct Gap {
  Chunk chunk;
  std::size_t from, to;
  bool dead;         // the chunk is freed at its begin: it is away without a transfer
  bool taken = false;
  std::int64_t out_ns = 0, in_ns = 0; // begins of its transfers
};

// All gaps of a sequence, chunk by chunk, each chunk's in order.
class Gaps {
 public:
  explicit Gaps(const Sequence& sequence) : firsts_(sequence.chunks() + 1) {
    std::vector<std::vector<std::pair<std::size_t, bool>>> touches(sequence.chunks()); // the kernel, and whether the chunk is freed before the next one
    std::vector<Chunk> freed_first; // freed before their first touch in the iteration: behind their last touch in the one before
    for (std::size_t kernel = 0; kernel < sequence.kernels(); ++kernel) {
      for (const Chunk chunk : sequence.touched(kernel)) touches[chunk].emplace_back(kernel, false);
      for (const Chunk chunk : sequence.freed(kernel)) {
        if (touches[chunk].empty())
          freed_first.push_back(chunk);
        else
          touches[chunk].back().second = true;
      }
    }
    for (const Chunk chunk : freed_first)
      if (!touches[chunk].empty()) touches[chunk].back().second = true;
    for (std::size_t chunk = 0; chunk < touches.size(); ++chunk) {
      firsts_[chunk] = gaps_.size();
      for (std::size_t i = 0; i < touches[chunk].size(); ++i) {
        const auto [from, dead] = touches[chunk][i];
        const std::size_t to = i + 1 < touches[chunk].size() ? touches[chunk][i + 1].first : touches[chunk].front().first + sequence.kernels();
        gaps_.push_back({.chunk = static_cast<Chunk>(chunk), .from = from, .to = to, .dead = dead});
      }
    }
    firsts_.back() = gaps_.size();
  }

  std::vector<Gap>& all() { return gaps_; }

  // The gap of a chunk in which a kernel lies; none: the kernel touches it, or nobody does.
  Gap* around(Chunk chunk, std::size_t kernel) {
    const auto begin = gaps_.begin() + static_cast<std::ptrdiff_t>(firsts_[chunk]);
    const auto end = gaps_.begin() + static_cast<std::ptrdiff_t>(firsts_[chunk + 1]);
    if (begin == end) return nullptr;
    const auto after = std::upper_bound(begin, end, kernel, [](std::size_t value, const Gap& gap) { return value < gap.from; });
    Gap& found = after == begin ? *(end - 1) : *(after - 1); // before its first touch a chunk is in the gap of the iteration before
    return found.from == kernel ? nullptr : &found;
  }

 private:
  std::vector<Gap> gaps_;
  std::vector<std::size_t> firsts_;
};

class Planner {
 public:
  Planner(const Sequence& sequence, const ChunkTimes& chunk, std::int64_t lead_ns, std::int64_t budget)
      : sequence_(sequence), chunk_(chunk), lead_ns_(lead_ns), budget_(budget), lane_(sequence.total_ns()), gaps_(sequence),
        resident_(sequence.kernels(), 0) {
    for (Gap& gap : gaps_.all()) {
      // A chunk is on the GPU all the time, except in its dead gaps.
      for (std::size_t kernel = gap.from; kernel < (gap.dead ? gap.from + 1 : gap.to); ++kernel) ++resident_[kernel % resident_.size()];
      if (gap.dead) gap.taken = true;
    }
  }

  // Returns whether the budget is kept.
  bool run() {
    std::vector<bool> stuck(resident_.size());
    bool kept = true;
    for (;;) {
      std::optional<std::size_t> peak;
      for (std::size_t kernel = 0; kernel < resident_.size(); ++kernel)
        if (!stuck[kernel] && (!peak || resident_[kernel] > resident_[*peak])) peak = kernel;
      if (!peak || resident_[*peak] <= budget_) return kept;
      relieve(*peak);
      if (resident_[*peak] > budget_) {
        stuck[*peak] = true;
        kept = false;
      }
    }
  }

  std::int64_t peak() const { return resident_.empty() ? 0 : *std::max_element(resident_.begin(), resident_.end()); }

  std::vector<Transfer> transfers() {
    std::vector<Transfer> found;
    for (const Gap& gap : gaps_.all()) {
      if (!gap.taken || gap.dead) continue;
      found.push_back(transfer(gap.chunk, false, gap.out_ns));
      found.push_back(transfer(gap.chunk, true, gap.in_ns));
    }
    std::sort(found.begin(), found.end(), [](const Transfer& a, const Transfer& b) { return a.begin_ns < b.begin_ns; });
    return found;
  }

 private:
  // Kernels are numbered on into the next iteration.
  std::int64_t begin_ns(std::size_t kernel) const {
    return sequence_.begin_ns(kernel % resident_.size()) + static_cast<std::int64_t>(kernel / resident_.size()) * sequence_.total_ns();
  }
  std::int64_t end_ns(std::size_t kernel) const {
    return sequence_.end_ns(kernel % resident_.size()) + static_cast<std::int64_t>(kernel / resident_.size()) * sequence_.total_ns();
  }

  // Chunks leave until the kernel's peak is within the budget: the one with the farthest next use first.
  void relieve(std::size_t kernel) {
    std::vector<std::pair<std::size_t, Gap*>> candidates; // kernels until the next use
    for (std::size_t chunk = 0; chunk < sequence_.chunks(); ++chunk) {
      Gap* gap = gaps_.around(static_cast<Chunk>(chunk), kernel);
      if (gap && !gap->taken) candidates.emplace_back(gap->to - within(*gap, kernel), gap);
    }
    std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [distance, gap] : candidates) {
      if (resident_[kernel] <= budget_) return;
      send_away(*gap, within(*gap, kernel));
    }
  }

  // The kernel, as the gap counts: behind its `from`.
  std::size_t within(const Gap& gap, std::size_t kernel) const { return kernel > gap.from ? kernel : kernel + resident_.size(); }

  // Out right after its last use, back as late as the link allows, away while `kernel` runs. Does nothing where the link has no time for that.
  void send_away(Gap& gap, std::size_t kernel) {
    const auto out_ns = lane_.earliest(end_ns(gap.from), begin_ns(kernel), chunk_.out_ns);
    if (!out_ns) return;
    lane_.take(*out_ns, chunk_.out_ns);
    const auto in_ns = lane_.latest(end_ns(kernel), begin_ns(gap.to) - lead_ns_, chunk_.in_ns);
    if (!in_ns) {
      lane_.give_back(*out_ns, chunk_.out_ns);
      return;
    }
    lane_.take(*in_ns, chunk_.in_ns);
    gap.taken = true;
    gap.out_ns = *out_ns;
    gap.in_ns = *in_ns;
    for (std::size_t each = gap.from + 1; each < gap.to; ++each)
      if (begin_ns(each) >= *out_ns + chunk_.out_ns && end_ns(each) <= *in_ns) --resident_[each % resident_.size()];
  }

  // Placed behind the last kernel that has ended by at_ns.
  Transfer transfer(Chunk chunk, bool in, std::int64_t at_ns) const {
    const std::int64_t begin_ns = at_ns % sequence_.total_ns();
    std::size_t low = 0, high = sequence_.kernels(); // how many have ended
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      if (sequence_.end_ns(middle) <= begin_ns)
        low = middle + 1;
      else
        high = middle;
    }
    const std::size_t kernel = low == 0 ? sequence_.kernels() - 1 : low - 1;
    const std::int64_t ended_ns = low == 0 ? 0 : sequence_.end_ns(kernel);
    return {.chunk = chunk, .in = in, .kernel = kernel, .delay_ns = begin_ns - ended_ns, .begin_ns = begin_ns};
  }

  const Sequence& sequence_;
  ChunkTimes chunk_;
  std::int64_t lead_ns_, budget_;
  Lane lane_;
  Gaps gaps_;
  std::vector<std::int64_t> resident_; // chunks, kernel by kernel
};

constexpr std::int64_t kMostChunkBytes = std::int64_t{1} << 32; // with them the bytes of all transfers of a sequence are an int64
constexpr double kMostChunkNs = 1e12;                           // slower links are taken for this one: no sum of times overflows

std::int64_t most_touched(const Sequence& sequence) {
  std::size_t most = 0;
  for (std::size_t kernel = 0; kernel < sequence.kernels(); ++kernel) most = std::max(most, sequence.touched(kernel).size());
  return static_cast<std::int64_t>(most);
}

} // namespace

BudgetPlan plan(const Sequence& sequence, const Link& link, std::int64_t chunk_bytes, std::int64_t budget_bytes) {
  if (sequence.total_ns() <= 0) throw std::invalid_argument("a sequence takes no time");
  if (chunk_bytes <= 0 || chunk_bytes > kMostChunkBytes || budget_bytes <= 0)
    throw std::invalid_argument("a chunk and a budget have bytes, a chunk 4 GiB at most");
  if (!link.is_valid() || link.lead_ns < 0) throw std::invalid_argument("the link's rates must be positive, its lead not negative");
  const auto chunk_ns = [&](bool in) {
    return static_cast<std::int64_t>(std::clamp(std::ceil(link.ns(in, static_cast<double>(chunk_bytes))), 1.0, kMostChunkNs));
  };
  const ChunkTimes chunk{.in_ns = chunk_ns(true), .out_ns = chunk_ns(false)};
  const std::int64_t budget = budget_bytes / chunk_bytes;

  BudgetPlan found;
  Planner greedy(sequence, chunk, link.lead_ns, budget);
  found.fits = greedy.run();
  if (std::optional<Swept> swept; !found.fits && (swept = sweep(sequence, chunk, budget))) {
    found.transfers = std::move(swept->transfers);
    found.peak_bytes = swept->peak * chunk_bytes;
    found.stretch = static_cast<double>(swept->total_ns - sequence.total_ns()) / static_cast<double>(sequence.total_ns());
    found.fits = true;
    found.steady = swept->steady;
  } else {
    found.transfers = greedy.transfers();
    found.peak_bytes = greedy.peak() * chunk_bytes;
  }
  found.moved_bytes = static_cast<std::int64_t>(found.transfers.size()) * chunk_bytes;
  return found;
}

std::int64_t peak_bytes(const Sequence& sequence, std::int64_t chunk_bytes) {
  return Planner(sequence, {.in_ns = 1, .out_ns = 1}, 0, 0).peak() * chunk_bytes;
}

std::int64_t least_bytes(const Sequence& sequence, std::int64_t chunk_bytes) { return most_touched(sequence) * chunk_bytes; }

Again plan_again(const Planned& planned, const Observed& observed) {
  if (observed.budget_bytes != planned.budget_bytes) return Again::budget;
  const auto change_ns = std::abs(static_cast<double>(observed.iteration_ns) - static_cast<double>(planned.iteration_ns));
  if (change_ns > kDrift * static_cast<double>(planned.iteration_ns)) return Again::drift;
  if (static_cast<double>(observed.missed_bytes) > kMisses * static_cast<double>(observed.touched_bytes)) return Again::misses;
  return Again::no;
}

} // namespace fikit::residency
