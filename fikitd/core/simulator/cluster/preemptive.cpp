// Preemptive schedulers of whole GPUs: the rules are those of the simulators of Tiresias (SymbioticLab/Tiresias, NSDI'19) and Muri
// (Rivendile/Muri, SIGCOMM'22), which their figures come from: all jobs are placed anew at every event.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "setup.hpp"

namespace fikit::simulator::cluster {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kRoundingS = 1e-6; // a sum of stretches may fall short of the limit at which it was to end

struct State {
  double left_s = 0;
  double attained_s = 0; // seconds of running
  double seen_s = 0;     // until when it has been reckoned
  double toll_s = 0;     // that it has still to pay, where it pays when it is resumed
  std::size_t queue = 0;
  bool running = false;
};

// GPUs by node, in which jobs are placed one after the other.
class Nodes {
 public:
  explicit Nodes(const PreemptiveSetup& setup) : setup_(setup), free_(static_cast<std::size_t>(setup.nodes)) { clear(); }

  void clear() {
    std::ranges::fill(free_, setup_.gpus_per_node);
    total_ = setup_.nodes * setup_.gpus_per_node;
  }

  bool take(int gpus) {
    if (gpus > total_ || (setup_.consolidated && !take_nodes(gpus))) return false;
    total_ -= gpus;
    return true;
  }

 private:
  bool take_nodes(int gpus) {
    if (gpus <= setup_.gpus_per_node) {
      const auto node = std::ranges::find_if(free_, [&](int free) { return free >= gpus; });
      if (node == free_.end()) return false;
      *node -= gpus;
      return true;
    }
    const int whole = gpus / setup_.gpus_per_node;
    const int rest = gpus % setup_.gpus_per_node;
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < free_.size() && std::ssize(found) < whole; ++i) {
      if (free_[i] == setup_.gpus_per_node) found.push_back(i);
    }
    if (std::ssize(found) < whole) return false;
    std::size_t last = free_.size();
    for (std::size_t i = 0; rest > 0 && i < free_.size() && last == free_.size(); ++i) {
      if (free_[i] >= rest && std::ranges::find(found, i) == found.end()) last = i;
    }
    if (rest > 0 && last == free_.size()) return false;
    for (const std::size_t node : found) free_[node] = 0;
    if (rest > 0) free_[last] -= rest;
    return true;
  }

  const PreemptiveSetup& setup_;
  std::vector<int> free_;
  int total_ = 0;
};

class Preemptive {
 public:
  Preemptive(const PreemptiveSetup& setup, const std::vector<ClusterJob>& jobs, const std::vector<double>& toll_s)
      : setup_(setup), jobs_(jobs), toll_s_(toll_s), states_(jobs.size()), nodes_(setup), queues_(setup.queue_limits_s.size() + 1) {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      arrivals_.push_back(i);
      states_[i].left_s = jobs[i].work_s;
    }
    std::ranges::stable_sort(arrivals_, {}, [&](std::size_t i) { return jobs_[i].submit_s; });
    result_.start_s.assign(jobs.size(), kNever);
    result_.end_s.assign(jobs.size(), kNever);
  }

  ClusterResult run() {
    while (next_ < arrivals_.size() || !runnable_.empty()) {
      const double arrival_s = next_ < arrivals_.size() ? jobs_[arrivals_[next_]].submit_s : kNever;
      now_s_ = std::min({arrival_s, end_s_, jump_s_});
      if (now_s_ == kNever) throw std::invalid_argument("the cluster is too small for one of the jobs");
      if (end_s_ == now_s_) finish();
      if (arrival_s == now_s_) arrive();
      reckon();
      schedule();
      foresee();
      ++result_.events;
    }
    return std::move(result_);
  }

 private:
  double toll_s(std::size_t job) const { return toll_s_.empty() ? 0 : toll_s_[job]; }
  bool by_queues() const { return setup_.rule == Preemption::attained; }

  void finish() {
    for (const std::size_t job : ending_) {
      result_.end_s[job] = now_s_;
      std::erase(runnable_, job);
      std::erase(queues_[states_[job].queue], job);
    }
    ending_.clear();
  }

  void arrive() {
    for (; next_ < arrivals_.size() && jobs_[arrivals_[next_]].submit_s == now_s_; ++next_) {
      const std::size_t job = arrivals_[next_];
      states_[job].seen_s = now_s_;
      runnable_.push_back(job);
      queues_[0].push_back(job);
    }
  }

  void reckon() {
    for (const std::size_t job : runnable_) {
      State& state = states_[job];
      const double passed_s = now_s_ - state.seen_s;
      state.seen_s = now_s_;
      if (!state.running) continue;
      const double lost_s = setup_.every_event ? std::min(toll_s(job), passed_s) : std::min(state.toll_s, passed_s);
      if (!setup_.every_event) state.toll_s -= lost_s;
      state.left_s -= passed_s - lost_s;
      state.attained_s += passed_s;
      if (by_queues() && state.queue + 1 < queues_.size() &&
          state.attained_s * jobs_[job].gpus >= setup_.queue_limits_s[state.queue] - kRoundingS) {
        std::erase(queues_[state.queue], job);
        queues_[++state.queue].push_back(job);
      }
    }
  }

  // The order stays from one event to the next, so that jobs with the same key keep theirs.
  void sort() {
    const bool gpu_time = setup_.rule == Preemption::remaining_gpu;
    std::ranges::stable_sort(runnable_, {}, [&](std::size_t job) { return states_[job].left_s * (gpu_time ? jobs_[job].gpus : 1); });
  }

  void place(std::size_t job) {
    State& state = states_[job];
    const bool runs = nodes_.take(jobs_[job].gpus);
    if (runs && !state.running) {
      state.toll_s = toll_s(job);
      result_.start_s[job] = std::min(result_.start_s[job], now_s_);
    }
    state.running = runs;
  }

  void schedule() {
    nodes_.clear();
    if (!by_queues()) {
      sort();
      for (const std::size_t job : runnable_) place(job);
      return;
    }
    for (std::vector<std::size_t>& queue : queues_) {
      for (const std::size_t job : queue) place(job);
      std::stable_partition(queue.begin(), queue.end(), [&](std::size_t job) { return states_[job].running; });
    }
  }

  void foresee() {
    end_s_ = jump_s_ = kNever;
    ending_.clear();
    double taken = 0;
    for (const std::size_t job : runnable_) {
      const State& state = states_[job];
      if (!state.running) continue;
      taken += jobs_[job].gpus;
      const double end_s = now_s_ + state.left_s + (setup_.every_event ? 0 : state.toll_s);
      if (end_s < end_s_) ending_.clear();
      if (end_s <= end_s_) {
        end_s_ = end_s;
        ending_.push_back(job);
      }
      if (by_queues() && state.queue + 1 < queues_.size()) {
        const double limit_s = std::ceil(setup_.queue_limits_s[state.queue] / jobs_[job].gpus);
        jump_s_ = std::min(jump_s_, std::max(limit_s - state.attained_s, 0.0) + now_s_);
      }
    }
    result_.use.push_back({.t_s = now_s_, .taken = taken, .work = taken});
  }

  const PreemptiveSetup& setup_;
  const std::vector<ClusterJob>& jobs_;
  const std::vector<double>& toll_s_;
  std::vector<State> states_;
  Nodes nodes_;
  std::vector<std::size_t> arrivals_; // by time
  std::size_t next_ = 0;              // of them
  std::vector<std::size_t> runnable_; // running or waiting
  std::vector<std::vector<std::size_t>> queues_;
  std::vector<std::size_t> ending_;
  double now_s_ = 0;
  double end_s_ = kNever;
  double jump_s_ = kNever; // when a job changes its queue
  ClusterResult result_;
};

} // namespace

ClusterResult simulate_preemptive(const PreemptiveSetup& setup, const std::vector<ClusterJob>& jobs, const std::vector<double>& toll_s) {
  if (setup.nodes < 1 || setup.gpus_per_node < 1) throw std::invalid_argument("a cluster needs a node with a GPU");
  check(jobs);
  if (!toll_s.empty() && toll_s.size() != jobs.size()) throw std::invalid_argument("a toll is needed for each job, or for none");
  return Preemptive(setup, jobs, toll_s).run();
}

} // namespace fikit::simulator::cluster
