#include "offer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

namespace fikit::placement {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kMemoryMargin = 1.1;
constexpr double kMostShards = 1e9; // no GPU has them

// Indices of jobs in the order of their priority, those that still run.
struct Running {
  std::array<std::size_t, kMostResidents> index{};
  std::size_t count = 0;

  void remove(std::size_t at) {
    for (std::size_t i = at + 1; i < count; ++i) index[i - 1] = index[i];
    --count;
  }
};

Running in_order(Priorities priorities, std::span<const Resident> jobs) {
  Running running;
  running.count = std::min(jobs.size(), kMostResidents);
  for (std::size_t i = 0; i < running.count; ++i) { // insertion: there are few
    std::size_t at = i;
    for (; priorities == Priorities::ordered && at > 0 && jobs[i].rest_s < jobs[running.index[at - 1]].rest_s; --at) {
      running.index[at] = running.index[at - 1];
    }
    running.index[at] = i;
  }
  return running;
}

void rates_of(const Slowdowns& slowdowns, Priorities priorities, std::span<const Resident> jobs, const Running& running,
              std::array<double, kMostResidents>& rates) {
  std::array<Load, kMostResidents> loads;
  for (std::size_t i = 0; i < running.count; ++i) loads[i] = jobs[running.index[i]].load;
  slowdowns.rates(priorities, std::span(loads).first(running.count), std::span(rates).first(running.count));
}

// Of one of the two that are no choice.
Ends play(const Slowdowns& slowdowns, Priorities priorities, std::span<const Resident> jobs, std::span<double> ends_s) {
  Running running = in_order(priorities, jobs);
  std::array<double, kMostResidents> rest{};
  for (std::size_t i = 0; i < running.count; ++i) rest[i] = jobs[i].rest_s;
  Ends ends{.priorities = priorities};
  double now_s = 0;
  std::array<double, kMostResidents> rates{};
  while (running.count > 0) {
    rates_of(slowdowns, priorities, jobs, running, rates);
    std::size_t first = 0;
    double step_s = kNoLimit;
    for (std::size_t i = 0; i < running.count; ++i) {
      const double left_s = rest[running.index[i]] / rates[i];
      if (left_s < step_s) {
        step_s = left_s;
        first = i;
      }
    }
    if (!std::isfinite(step_s)) return {.sum_s = kNoLimit, .last_s = kNoLimit, .priorities = priorities};
    for (std::size_t i = 0; i < running.count; ++i) {
      double& left = rest[running.index[i]];
      left = std::max(0.0, left - rates[i] * step_s);
    }
    now_s += step_s;
    ends.sum_s += now_s;
    if (!ends_s.empty()) ends_s[running.index[first]] = now_s;
    running.remove(first);
  }
  ends.last_s = now_s;
  return ends;
}

} // namespace

Ends replay(const Slowdowns& slowdowns, Priorities priorities, std::span<const Resident> jobs, std::span<double> ends_s) {
  if (priorities != Priorities::automatic) return play(slowdowns, priorities, jobs, ends_s);
  const Ends ordered = play(slowdowns, Priorities::ordered, jobs, ends_s);
  if (jobs.size() < 2) return ordered;
  std::array<double, kMostResidents> equal_s{};
  const std::span<double> equal_ends_s = std::span(equal_s).first(ends_s.size());
  const Ends equal = play(slowdowns, Priorities::equal, jobs, equal_ends_s);
  if (!(equal.sum_s < ordered.sum_s)) return ordered;
  std::ranges::copy(equal_ends_s, ends_s.begin());
  return equal;
}

Offer consider(const Slowdowns& slowdowns, const Rules& rules, const Resident& job, std::span<const Resident> residents,
               int free_shards, double wait_s, const Ends* without) {
  Offer offer;
  offer.end_s = job.rest_s;
  if (job.shards > free_shards) offer.verdict = Verdict::no_memory;
  if (!offer.accepted() || residents.empty()) return offer;
  const std::size_t count = residents.size() + 1;
  if (residents.size() >= kMostResidents || (rules.most > 0 && count > rules.most)) {
    offer.verdict = Verdict::full;
    return offer;
  }
  std::array<Resident, kMostResidents> all;
  std::ranges::copy(residents, all.begin());
  all[residents.size()] = job;
  const std::span<const Resident> together = std::span(all).first(count);
  if (rules.most_busy > 0) {
    double busy = 0;
    for (const Resident& each : together) busy += each.load.busy;
    if (busy > rules.most_busy) {
      offer.verdict = Verdict::too_busy;
      return offer;
    }
  }
  std::array<double, kMostResidents> ends_s{};
  const Ends sharing = replay(slowdowns, rules.priorities, together, std::span(ends_s).first(count));
  const Ends alone = without != nullptr ? *without : replay(slowdowns, rules.priorities, residents);
  const double waits_s = rules.waits_for_free ? std::min(wait_s, alone.last_s) : alone.last_s;
  offer.end_s = ends_s[count - 1];
  offer.gain_s = alone.sum_s + waits_s + job.rest_s - sharing.sum_s;
  if (rules.saved_worth > 0) offer.gain_s += rules.saved_worth * (alone.last_s + job.rest_s - sharing.last_s);

  const Running order = in_order(sharing.priorities, together);
  std::array<double, kMostResidents> rates{};
  rates_of(slowdowns, sharing.priorities, together, order, rates);
  for (std::size_t i = 0; i < count; ++i) {
    double& slowdown = order.index[i] == count - 1 ? offer.slowdown_new : offer.slowdown_worst;
    slowdown = std::max(slowdown, 1 / rates[i]);
  }
  offer.verdict = rules.must_gain && !(offer.gain_s > 0) ? Verdict::slower : Verdict::shares;
  return offer;
}

int shards_for(double peak_bytes) {
  if (!std::isfinite(peak_bytes) || peak_bytes < 0) throw std::invalid_argument("a peak of memory is a number of bytes");
  return static_cast<int>(std::clamp(std::ceil(kMemoryMargin * peak_bytes / kGiB), 1.0, kMostShards));
}

SubBatch sub_batch(int batch_1, double peak_bytes_1, int batch_2, double peak_bytes_2, double free_bytes, int wanted_batch) {
  if (batch_1 <= 0 || batch_2 <= 0 || wanted_batch <= 0 || batch_1 == batch_2) {
    throw std::invalid_argument("two runs with different batches are needed, each of 1 or more");
  }
  const double per_sample = (peak_bytes_2 - peak_bytes_1) / (batch_2 - batch_1);
  if (!(per_sample > 0)) throw std::invalid_argument("the run with the larger batch needed no more memory: nothing to learn from");
  const double fixed = peak_bytes_1 - per_sample * batch_1;
  const double room = std::floor((free_bytes - fixed) / per_sample);
  if (!(room >= 1)) return {};
  const int batch = static_cast<int>(std::min(room, static_cast<double>(wanted_batch)));
  return {.batch = batch, .steps = (wanted_batch + batch - 1) / batch};
}

} // namespace fikit::placement
