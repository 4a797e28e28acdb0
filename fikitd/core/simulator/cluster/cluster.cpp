#include "cluster.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <vector>

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
  Gpu& gpu = gpus_[at];
  const bool ordered = !gpu.exclusive && gpu.precedence.priorities == placement::Priorities::ordered;
  for (const Id job : gpu.jobs) {
    Live& live = live_[job];
    live.done_s = done_s(at, job, now_s);
    if (ordered) live.waited_s = job == gpu.jobs.front() ? 0 : live.waited_s + (1 - live.rate) * (now_s - gpu.seen_s);
  }
  gpu.seen_s = now_s;
}

placement::Priorities Cluster::order(Id at, double now_s) {
  Gpu& gpu = gpus_[at];
  if (setup_.policy.rules.priorities == placement::Priorities::automatic) return order_automatically(at, now_s);
  if (setup_.policy.rules.priorities == placement::Priorities::ordered) {
    std::ranges::stable_sort(gpu.jobs, {}, [&](Id job) { return expected_rest_s(job, live_[job].done_s); });
  }
  std::array<placement::Resident, placement::kMostResidents> jobs;
  for (std::size_t i = 0; i < gpu.jobs.size(); ++i) {
    jobs[i] = seen_[gpu.jobs[i]];
    jobs[i].rest_s = expected_rest_s(gpu.jobs[i], live_[gpu.jobs[i]].done_s);
  }
  gpu.ends = placement::replay(*setup_.believed, setup_.policy.rules.priorities, std::span(jobs).first(gpu.jobs.size()));
  return setup_.policy.rules.priorities;
}

// As fikitd does it on a node.
placement::Priorities Cluster::order_automatically(Id at, double now_s) {
  Gpu& gpu = gpus_[at];
  std::array<placement::Contender, placement::kMostResidents> contenders;
  std::array<std::size_t, placement::kMostResidents> order{};
  const std::size_t count = gpu.jobs.size();
  for (std::size_t i = 0; i < count; ++i) {
    Live& live = live_[gpu.jobs[i]];
    contenders[i] = {.rest_s = expected_rest_s(gpu.jobs[i], live.done_s), .load = seen_[gpu.jobs[i]].load, .waited_s = live.waited_s, .is_new = live.is_new};
    live.is_new = false;
  }
  placement::Precedence& last = gpu.precedence;
  last = placement::later(last, now_s - gpu.chosen_s);
  const bool turn = last.turn_s > 0;
  last = placement::choose(*setup_.believed, std::span(contenders).first(count), last, std::span(order).first(count));
  gpu.chosen_s = now_s;
  gpu.ends = last.ends;
  const std::vector<Id> before = gpu.jobs;
  for (std::size_t i = 0; i < count; ++i) gpu.jobs[i] = before[order[i]];
  if (last.turn_s > 0 && !turn) {
    for (const Id job : gpu.jobs) live_[job].waited_s = 0;
  }
  return last.priorities;
}

double Cluster::until_next_s(Id at) const {
  const Gpu& gpu = gpus_[at];
  const bool ordered = gpu.precedence.priorities == placement::Priorities::ordered;
  double next_s = gpu.precedence.turn_s > 0 ? gpu.precedence.turn_s : kNever;
  for (const Id job : gpu.jobs) {
    const Live& live = live_[job];
    double until_s = jobs_[job].work_s;
    if (const double jump_s = next_jump_s(job, live.done_s); jump_s > live.done_s) until_s = std::min(until_s, jump_s);
    next_s = std::min(next_s, (until_s - live.done_s) / live.rate);
    if (ordered && job != gpu.jobs.front() && live.rate < 1) {
      next_s = std::min(next_s, (placement::kPatienceS - live.waited_s) / (1 - live.rate) + kRoundingS);
    }
  }
  return next_s;
}

// Its job goes as fast as alone.
void Cluster::arrange_alone(Id at, double now_s) {
  const Gpu& gpu = gpus_[at];
  const Id job = gpu.jobs.front();
  const double done_s = live_[job].done_s;
  const double free_s = now_s + expected_rest_s(job, done_s);
  for (const Id each : spans_[job]) set_free_s(each, free_s);
  const double jump_s = next_jump_s(job, done_s);
  const double until_s = jobs_[job].work_s;
  coming_.push({.t_s = now_s + (jump_s > done_s ? std::min(jump_s, until_s) : until_s) - done_s, .gpu = at, .version = gpu.version});
}

void Cluster::arrange(Id at, double now_s) {
  Gpu& gpu = gpus_[at];
  ++gpu.version;
  gpu.seen_s = now_s;
  if (gpu.jobs.empty()) {
    gpu.precedence = {};
    set_free_s(at, 0);
    return;
  }
  if (gpu.exclusive) {
    arrange_alone(at, now_s);
    return;
  }
  const placement::Priorities priorities = order(at, now_s);
  std::array<placement::Load, placement::kMostResidents> loads;
  std::array<double, placement::kMostResidents> rates{};
  const std::size_t count = gpu.jobs.size();
  for (std::size_t i = 0; i < count; ++i) loads[i] = seen_[gpu.jobs[i]].load;
  setup_.real->rates(priorities, std::span(loads).first(count), std::span(rates).first(count));
  for (std::size_t i = 0; i < count; ++i) {
    Live& live = live_[gpu.jobs[i]];
    work_ += rates[i] - live.rate;
    live.rate = rates[i];
  }
  set_free_s(at, now_s + gpu.ends.last_s);
  coming_.push({.t_s = now_s + until_next_s(at), .gpu = at, .version = gpu.version});
}

} // namespace fikit::simulator::cluster
