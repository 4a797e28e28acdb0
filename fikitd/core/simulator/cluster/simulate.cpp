// Events: jobs come and go; what waits is looked at when something has changed for it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "cluster.hpp"
#include "placement/queue.hpp"
#include "setup.hpp"

namespace fikit::simulator::cluster {
namespace {

using Id = Cluster::Id;
using placement::Offer;
using placement::Resident;

constexpr double kNever = std::numeric_limits<double>::infinity();
// So many waiting jobs are looked at when GPUs became free, as Slurm's bf_max_job_test bounds its backfill.
constexpr std::size_t kDepth = 1000;

class Simulation {
 public:
  Simulation(const ClusterSetup& setup, const std::vector<ClusterJob>& jobs)
      : setup_(setup), jobs_(jobs), cluster_(setup, jobs, result_) {
    result_.start_s.assign(jobs.size(), -1);
    result_.end_s.assign(jobs.size(), -1);
    for (Id i = 0; i < jobs.size(); ++i) arrivals_.push_back(i);
    std::ranges::stable_sort(arrivals_, {}, [&](Id i) { return jobs_[i].submit_s; });
    claimed_s_.assign(static_cast<std::size_t>(setup.gpus), kNever);
  }

  ClusterResult run() {
    for (std::size_t next = 0;;) {
      const double arrival_s = next < arrivals_.size() ? jobs_[arrivals_[next]].submit_s : kNever;
      const double event_s = cluster_.next_s();
      now_s_ = std::min(arrival_s, event_s);
      if (now_s_ == kNever) break;
      std::vector<Id> freed;
      for (; cluster_.next_s() == now_s_; ++result_.events) cluster_.happen(freed);
      std::vector<Id> came;
      for (; next < arrivals_.size() && jobs_[arrivals_[next]].submit_s == now_s_; ++next) came.push_back(arrivals_[next]);
      result_.events += std::ssize(came);
      age();
      for (const Id job : came) enqueue(job);
      if (!freed.empty()) {
        look_at_all(freed);
      } else {
        for (const Id job : came) look_at(job);
      }
      cluster_.note_use(now_s_);
    }
    return std::move(result_);
  }

 private:
  bool before(Id first, Id second) const {
    const auto waiting = [&](Id job) { return placement::Waiting{.submit_s = jobs_[job].submit_s, .expected_s = jobs_[job].expected_s}; };
    if (setup_.policy.queue == Queue::arrival) return jobs_[first].submit_s < jobs_[second].submit_s;
    return placement::before(waiting(first), waiting(second), now_s_, setup_.policy.max_wait_s);
  }

  void enqueue(Id job) {
    queue_.insert(std::upper_bound(queue_.begin(), queue_.end(), job, [&](Id first, Id second) { return before(first, second); }), job);
  }

  // Time has passed: jobs that have become overdue since the last time go to the front, behind those that were so before.
  void age() {
    if (setup_.policy.queue == Queue::arrival) return;
    for (; next_overdue_ < arrivals_.size(); ++next_overdue_) {
      const Id job = arrivals_[next_overdue_];
      if (!placement::overdue(jobs_[job].submit_s, now_s_, setup_.policy.max_wait_s)) return;
      const auto at = std::ranges::find(queue_, job);
      if (at == queue_.end()) continue;
      queue_.erase(at);
      enqueue(job);
    }
  }

  // A new job; nothing has become free. It may be first, or may pass those who wait.
  void look_at(Id job) {
    const auto at = std::ranges::find(queue_, job);
    if (at == queue_.begin()) {
      if (try_start(job)) {
        queue_.erase(at);
      } else {
        claim();
      }
    } else if (setup_.policy.behind != Behind::waits && try_start(job)) {
      queue_.erase(at);
    }
  }

  // GPUs have become free: those who wait, in their order. Beside others a job is looked at again only where something changed.
  void look_at_all(const std::vector<Id>& freed) {
    freed_ = &freed;
    std::ranges::fill(claimed_s_, kNever);
    std::size_t kept = 0; // of those who were looked at, at the queue's beginning
    std::size_t at = 0;
    for (; at < queue_.size() && at < kDepth && has_room(); ++at) {
      const Id job = queue_[at];
      std::swap(queue_[kept], queue_[at]); // nobody who has started is before it
      if (try_start(job)) continue;
      ++kept;
      if (setup_.policy.behind == Behind::waits) {
        ++at;
        break;
      }
      if (kept == 1) claim();
    }
    queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(kept), queue_.begin() + static_cast<std::ptrdiff_t>(at));
    freed_ = nullptr;
  }

  // May anybody start at all?
  bool has_room() const {
    if (!cluster_.idle().empty()) return true;
    if (setup_.policy.sharing == Sharing::none) return false;
    return std::ranges::any_of(*freed_, [&](Id gpu) { return !cluster_.exclusive(gpu) && !full(gpu); });
  }
  bool full(Id gpu) const {
    const std::size_t most = setup_.policy.rules.most > 0 ? setup_.policy.rules.most : placement::kMostResidents;
    return cluster_.jobs_on(gpu) >= most;
  }

  // The first that waits gets the GPUs that are expected to be free soonest: nobody else may keep them beyond that.
  void claim() {
    std::ranges::fill(claimed_s_, kNever);
    if (setup_.policy.behind != Behind::reserves || queue_.empty()) return;
    const auto wanted = static_cast<std::size_t>(jobs_[queue_.front()].gpus);
    by_free_.clear();
    for (Id gpu = 0; gpu < cluster_.gpus(); ++gpu) by_free_.emplace_back(cluster_.free_s(gpu, now_s_), gpu);
    std::ranges::nth_element(by_free_, by_free_.begin() + static_cast<std::ptrdiff_t>(wanted - 1));
    const double then_s = by_free_[wanted - 1].first;
    for (std::size_t i = 0; i < wanted; ++i) claimed_s_[by_free_[i].second] = then_s;
  }
  // Is the job out of this GPU's way when it is claimed? The first that waits is the one for which it is.
  bool unclaimed(Id job, Id gpu, double end_s) const {
    return now_s_ + end_s <= claimed_s_[gpu] || (!queue_.empty() && queue_.front() == job);
  }

  bool try_start(Id job) {
    if (jobs_[job].gpus > 1) return try_alone(job);
    switch (setup_.policy.sharing) {
      case Sharing::none: return try_alone(job);
      case Sharing::first_fit: return try_first_fit(job);
      case Sharing::spread: return try_spread(job);
      case Sharing::idle_first: return try_alone(job) || try_first_fit(job);
      case Sharing::best: return try_alone(job) || try_best(job);
      case Sharing::agent: return try_as_agent(job);
    }
    return false;
  }

  bool try_alone(Id job) {
    const auto wanted = static_cast<std::size_t>(jobs_[job].gpus);
    if (cluster_.idle().size() < wanted) return false;
    std::vector<Id> found;
    for (const Id gpu : cluster_.idle()) {
      if (unclaimed(job, gpu, cluster_.waiting(job).rest_s)) found.push_back(gpu);
      if (found.size() == wanted) break;
    }
    if (found.size() < wanted) return false;
    if (wanted == 1) {
      cluster_.start(job, found.front(), now_s_);
    } else {
      cluster_.start(job, std::move(found), now_s_);
    }
    return true;
  }

  bool fits(Id job, Id gpu) {
    ++result_.offers;
    return !cluster_.exclusive(gpu) && !full(gpu) && jobs_[job].shards <= cluster_.free_shards(gpu) && unclaimed(job, gpu, cluster_.waiting(job).rest_s);
  }

  // GPUs on which a job may be put beside others: all, or, while those who wait are looked at, those where something changed.
  // `look` says true when it has found what it wants.
  template <typename Look>
  void among(Look look) {
    if (freed_ == nullptr) {
      for (Id gpu = 0; gpu < cluster_.gpus() && !look(gpu); ++gpu) {
      }
      return;
    }
    if (std::ranges::any_of(*freed_, look)) return;
    for (const Id gpu : cluster_.idle()) {
      if (look(gpu)) return;
    }
  }

  bool put(Id job, Id gpu) {
    if (gpu == cluster_.gpus()) return false;
    cluster_.start(job, gpu, now_s_);
    return true;
  }

  bool try_first_fit(Id job) {
    Id found = cluster_.gpus();
    among([&](Id gpu) {
      if (fits(job, gpu)) found = std::min(found, gpu);
      return freed_ == nullptr && found < cluster_.gpus();
    });
    return put(job, found);
  }

  bool try_spread(Id job) {
    Id found = cluster_.gpus();
    among([&](Id gpu) {
      if (fits(job, gpu) && (found == cluster_.gpus() || cluster_.free_shards(gpu) > cluster_.free_shards(found))) found = gpu;
      return false;
    });
    return put(job, found);
  }

  // What the placement agent does under Slurm: it decides when a job comes, and for a job that it made wait; for others Slurm
  // does, as soon as there is room.
  bool try_as_agent(Id job) {
    if (came_.size() <= job) came_.resize(jobs_.size(), kComes);
    const How how = came_[job];
    if (how == kNoRoom) return try_spread(job);
    bool room = false;
    for (Id gpu = 0; gpu < cluster_.gpus() && !room; ++gpu) {
      room = !cluster_.exclusive(gpu) && !full(gpu) && jobs_[job].shards <= cluster_.free_shards(gpu);
    }
    came_[job] = room ? kWaits : kNoRoom;
    return try_alone(job) || try_best(job);
  }

  // GPUs that those who wait before this job want: they get what becomes free sooner.
  std::size_t wanted_before(Id job) const {
    std::size_t wanted = 0;
    for (const Id before : queue_) {
      if (before == job || wanted >= cluster_.gpus()) break;
      wanted += static_cast<std::size_t>(jobs_[before].gpus);
    }
    return wanted;
  }

  bool try_best(Id job) {
    const double wait_s = cluster_.free_after_s(wanted_before(job), now_s_) - now_s_;
    double best_s = -kNever;
    Id best = cluster_.gpus();
    among([&](Id gpu) {
      if (cluster_.exclusive(gpu) || full(gpu) || jobs_[job].shards > cluster_.free_shards(gpu)) return false;
      ++result_.offers;
      cluster_.residents(gpu, now_s_, residents_);
      const placement::Ends without = cluster_.ends(gpu, now_s_);
      const Offer offer = placement::consider(*setup_.believed, setup_.policy.rules, cluster_.waiting(job), residents_,
                                              cluster_.free_shards(gpu), wait_s, &without);
      if (offer.accepted() && offer.gain_s > best_s && unclaimed(job, gpu, offer.end_s)) {
        best_s = offer.gain_s;
        best = gpu;
      }
      return false;
    });
    return put(job, best);
  }

  const ClusterSetup& setup_;
  const std::vector<ClusterJob>& jobs_;
  ClusterResult result_;
  Cluster cluster_;
  std::vector<Id> arrivals_; // by time
  std::vector<Id> queue_;    // those who wait, in their order
  std::vector<double> claimed_s_; // by GPU: when the first that waits wants it
  std::vector<std::pair<double, Id>> by_free_;
  enum How : unsigned char { kComes, kNoRoom, kWaits };
  std::vector<How> came_; // Sharing::agent, by job: what it met when it was looked at first
  std::vector<Resident> residents_;
  std::size_t next_overdue_ = 0; // among arrivals_: the first that has not waited too long
  const std::vector<Id>* freed_ = nullptr; // while those who wait are looked at because of them
  double now_s_ = 0;
};

std::string name(std::size_t job) { return "job " + std::to_string(job) + " of the trace"; }

} // namespace

void check(const std::vector<ClusterJob>& jobs) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const ClusterJob& job = jobs[i];
    if (!std::isfinite(job.submit_s)) throw std::invalid_argument(name(i) + " comes at no time");
    const bool expects = job.expected_s > 0; // infinity: nobody knows
    if (!std::isfinite(job.work_s) || job.work_s <= 0 || !expects) throw std::invalid_argument(name(i) + " takes no positive number of seconds");
    if (job.gpus < 1 || job.shards < 1) throw std::invalid_argument(name(i) + " wants no GPU or no memory");
    if (!(job.busy >= 0 && job.busy <= 1)) throw std::invalid_argument(name(i) + " has a busy share that is not from 0 to 1");
  }
}

ClusterResult simulate_cluster(const ClusterSetup& setup, const std::vector<ClusterJob>& jobs) {
  check(jobs);
  if (setup.gpus < 1 || setup.history.empty()) throw std::invalid_argument("a cluster needs a GPU, and a prediction one run or more");
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i].gpus > setup.gpus || jobs[i].shards > setup.shards_per_gpu) {
      throw std::invalid_argument(name(i) + " wants more than this cluster has");
    }
  }
  return Simulation(setup, jobs).run();
}

} // namespace fikit::simulator::cluster
