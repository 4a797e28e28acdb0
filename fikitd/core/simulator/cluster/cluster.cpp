#include "cluster.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

namespace fikit::simulator::cluster {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kRoundingS = 1e-6; // with less than this left a job is done

} // namespace

Cluster::Cluster(const ClusterSetup& setup, const std::vector<ClusterJob>& jobs, ClusterResult& result)
    : setup_(setup), jobs_(jobs), result_(result), history_(setup.history), live_(jobs.size()),
      gpus_(static_cast<std::size_t>(setup.gpus)), free_s_(gpus_.size()), spans_(jobs.size()) {
  for (Id i = 0; i < gpus_.size(); ++i) idle_.insert(i);
  for (Id i = 0; i < jobs.size(); ++i) {
    seen_.push_back({.rest_s = expected_rest_s(i, 0), .load = {.busy = jobs[i].busy, .kind = jobs[i].kind}, .shards = jobs[i].shards});
  }
}

double Cluster::next_s() {
  while (!coming_.empty() && coming_.top().version != gpus_[coming_.top().gpu].version) coming_.pop();
  return coming_.empty() ? kNever : coming_.top().t_s;
}

void Cluster::happen(std::vector<Id>& freed) {
  const Id at = coming_.top().gpu;
  const double now_s = coming_.top().t_s;
  coming_.pop();
  reckon(at, now_s);
  std::vector<Id> done;
  for (const Id job : gpus_[at].jobs) {
    if (jobs_[job].work_s - live_[job].done_s <= kRoundingS) done.push_back(job);
  }
  for (const Id job : done) {
    result_.end_s[job] = now_s;
    const std::vector<Id> span = spans_[job].empty() ? std::vector{at} : spans_[job];
    for (const Id gpu : span) leave(job, gpu, now_s);
    freed.insert(freed.end(), span.begin(), span.end());
  }
  if (done.empty()) arrange(at, now_s);
}

void Cluster::leave(Id job, Id at, double now_s) {
  Gpu& gpu = gpus_[at];
  work_ -= live_[job].rate;
  std::erase(gpu.jobs, job);
  if (!gpu.exclusive) gpu.shards -= jobs_[job].shards;
  gpu.exclusive = false;
  if (gpu.jobs.empty()) idle_.insert(at);
  arrange(at, now_s);
}

void Cluster::start(Id job, Id at, double now_s) {
  Gpu& gpu = gpus_[at];
  reckon(at, now_s);
  gpu.jobs.push_back(job);
  idle_.erase(at);
  gpu.shards += jobs_[job].shards;
  result_.start_s[job] = now_s;
  arrange(at, now_s);
}

void Cluster::start(Id job, std::vector<Id> span, double now_s) {
  result_.start_s[job] = now_s;
  spans_[job] = std::move(span);
  for (const Id at : spans_[job]) {
    Gpu& gpu = gpus_[at];
    gpu.jobs.push_back(job);
    gpu.exclusive = true;
    gpu.seen_s = now_s;
    idle_.erase(at);
  }
  live_[job].rate = 1;
  work_ += static_cast<double>(spans_[job].size());
  arrange(spans_[job].front(), now_s);
}

double Cluster::expected_rest_s(Id job, double done_s) const {
  const double scale = jobs_[job].expected_s;
  return scale * history_.expected_rest_s(done_s / scale);
}

// Beyond all runs of the history a job is expected to take as long again: until it has taken twice as long.
double Cluster::next_jump_s(Id job, double done_s) const {
  const double scale = jobs_[job].expected_s;
  const double jump = history_.next_jump_s((done_s + kRoundingS) / scale); // one that is as near as that has come
  return jump < kNever ? scale * jump : 2 * done_s;
}

void Cluster::residents(Id at, double now_s, std::vector<placement::Resident>& found) const {
  found.clear();
  for (const Id job : gpus_[at].jobs) {
    found.push_back(seen_[job]);
    found.back().rest_s = expected_rest_s(job, done_s(at, job, now_s));
  }
}

double Cluster::free_after_s(std::size_t before, double now_s) const {
  return before < free_s_.size() ? std::max(free_s_[before], now_s) : kNever;
}

void Cluster::set_free_s(Id at, double free_s) {
  double& now = gpus_[at].free_s;
  free_s_.erase(std::ranges::lower_bound(free_s_, now));
  free_s_.insert(std::ranges::lower_bound(free_s_, free_s), free_s);
  now = free_s;
}

void Cluster::note_use(double now_s) {
  result_.use.push_back({.t_s = now_s, .taken = static_cast<double>(gpus_.size() - idle_.size()), .work = work_});
}

void Cluster::reckon(Id at, double now_s) {
  for (const Id job : gpus_[at].jobs) live_[job].done_s = done_s(at, job, now_s);
  gpus_[at].seen_s = now_s;
}

void Cluster::arrange(Id at, double now_s) {
  Gpu& gpu = gpus_[at];
  ++gpu.version;
  gpu.seen_s = now_s;
  if (gpu.jobs.empty()) {
    set_free_s(at, 0);
    return;
  }
  if (gpu.exclusive) { // its job goes as fast as alone
    const Id job = gpu.jobs.front();
    const double done_s = live_[job].done_s;
    const double free_s = now_s + expected_rest_s(job, done_s);
    for (const Id each : spans_[job]) set_free_s(each, free_s);
    const double jump_s = next_jump_s(job, done_s);
    const double until_s = jobs_[job].work_s;
    coming_.push({.t_s = now_s + (jump_s > done_s ? std::min(jump_s, until_s) : until_s) - done_s, .gpu = at, .version = gpu.version});
    return;
  }
  std::array<placement::Resident, placement::kMostResidents> jobs;
  std::array<placement::Load, placement::kMostResidents> loads;
  std::array<double, placement::kMostResidents> rates{};
  const std::size_t count = gpu.jobs.size();
  const auto fill = [&] {
    for (std::size_t i = 0; i < count; ++i) {
      jobs[i] = seen_[gpu.jobs[i]];
      jobs[i].rest_s = expected_rest_s(gpu.jobs[i], live_[gpu.jobs[i]].done_s);
      loads[i] = jobs[i].load;
    }
  };
  fill();
  gpu.ends = placement::replay(*setup_.believed, setup_.policy.rules.priorities, std::span(jobs).first(count));
  const placement::Priorities priorities = gpu.ends.priorities;
  if (priorities == placement::Priorities::ordered) {
    std::ranges::stable_sort(gpu.jobs, {}, [&](Id job) { return expected_rest_s(job, live_[job].done_s); });
    fill();
  }
  setup_.real->rates(priorities, std::span(loads).first(count), std::span(rates).first(count));
  double next_s = kNever;
  for (std::size_t i = 0; i < count; ++i) {
    const Id job = gpu.jobs[i];
    Live& live = live_[job];
    work_ += rates[i] - live.rate;
    live.rate = rates[i];
    double until_s = jobs_[job].work_s;
    if (const double jump_s = next_jump_s(job, live.done_s); jump_s > live.done_s) until_s = std::min(until_s, jump_s);
    next_s = std::min(next_s, now_s + (until_s - live.done_s) / live.rate);
  }
  set_free_s(at, now_s + gpu.ends.last_s);
  coming_.push({.t_s = next_s, .gpu = at, .version = gpu.version});
}

} // namespace fikit::simulator::cluster
