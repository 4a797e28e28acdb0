// The state of a simulated cluster: what runs on which GPU, how far it is, and when something will happen there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <set>
#include <vector>

#include "placement/history.hpp"
#include "placement/offer.hpp"
#include "placement/precedence.hpp"
#include "setup.hpp"

namespace fikit::simulator::cluster {

class Cluster {
 public:
  using Id = std::size_t; // of a job, of a GPU

  // setup, jobs and result outlive it.
  Cluster(const ClusterSetup& setup, const std::vector<ClusterJob>& jobs, ClusterResult& result);

  // When something happens next on a GPU; infinity: never.
  double next_s();
  // It happens: jobs that are done leave their GPUs, which are added to `freed`.
  void happen(std::vector<Id>& freed);

  Id gpus() const { return gpus_.size(); }
  const std::set<Id>& idle() const { return idle_; }
  std::size_t jobs_on(Id gpu) const { return gpus_[gpu].jobs.size(); }
  bool exclusive(Id gpu) const { return gpus_[gpu].exclusive; }
  int free_shards(Id gpu) const { return setup_.shards_per_gpu - gpus_[gpu].shards; }

  // The waiting job starts beside those who are there; or on these GPUs alone.
  void start(Id job, Id gpu, double now_s);
  void start(Id job, std::vector<Id> gpus, double now_s);

  // A waiting job as the rules see it.
  const placement::Resident& waiting(Id job) const { return seen_[job]; }
  // Those on a GPU.
  void residents(Id gpu, double now_s, std::vector<placement::Resident>& found) const;
  // When a GPU is expected to be idle, if nobody comes; not before now_s.
  double free_s(Id gpu, double now_s) const { return gpus_[gpu].jobs.empty() ? now_s : std::max(now_s, gpus_[gpu].free_s); }
  // When the GPU is expected to be idle of which `before` others are so sooner; infinity: there are not so many.
  double free_after_s(std::size_t before, double now_s) const;
  // When its jobs are expected to end, from now_s on; as long as none comes or goes, all of them come nearer by the time that passes.
  placement::Ends ends(Id gpu, double now_s) const {
    const Gpu& at = gpus_[gpu];
    const double passed_s = now_s - at.seen_s;
    return {.sum_s = std::max(0.0, at.ends.sum_s - passed_s * static_cast<double>(at.jobs.size())), .last_s = std::max(0.0, at.ends.last_s - passed_s), .priorities = at.ends.priorities};
  }
  void note_use(double now_s);

 private:
  // A job while it runs.
  struct Live {
    double done_s = 0; // work, in seconds alone
    double rate = 0;
    double waited_s = 0;    // below others, since it was first or had its turn
    bool is_new = true;     // nobody has chosen who goes first since it came
  };
  struct Gpu {
    std::vector<Id> jobs; // in the order of their priority
    int shards = 0;       // taken
    bool exclusive = false;
    double seen_s = 0; // until when its jobs' work is reckoned
    double free_s = 0;
    placement::Ends ends; // of its jobs, expected, from seen_s on
    placement::Precedence precedence; // as of chosen_s
    double chosen_s = 0;
    std::uint32_t version = 0; // of what will happen there: an older event is void
  };
  // A job ends, or what is expected of one jumps.
  struct Coming {
    double t_s;
    Id gpu;
    std::uint32_t version;
    bool operator>(const Coming& other) const { return t_s != other.t_s ? t_s > other.t_s : gpu > other.gpu; }
  };

  double done_s(Id gpu, Id job, double now_s) const { return live_[job].done_s + live_[job].rate * (now_s - gpus_[gpu].seen_s); }
  double expected_rest_s(Id job, double done_s) const;
  double next_jump_s(Id job, double done_s) const;
  void reckon(Id gpu, double now_s);
  void arrange(Id gpu, double now_s); // its jobs changed: order, rates, what comes next
  void arrange_alone(Id gpu, double now_s);
  placement::Priorities order(Id gpu, double now_s); // who of its jobs goes first from now on
  placement::Priorities order_automatically(Id gpu, double now_s);
  double until_next_s(Id gpu) const; // something happens there, from its jobs' rates
  void leave(Id job, Id gpu, double now_s);
  void set_free_s(Id gpu, double free_s);

  const ClusterSetup& setup_;
  const std::vector<ClusterJob>& jobs_;
  ClusterResult& result_;
  placement::History history_; // of a job that is expected to take a second
  std::vector<placement::Resident> seen_;
  std::vector<Live> live_;
  std::vector<Gpu> gpus_;
  std::vector<double> free_s_; // of all GPUs, ascending; 0: idle
  std::set<Id> idle_;
  std::vector<std::vector<Id>> spans_; // GPUs of a job of several, by job; its events are the first one's
  std::priority_queue<Coming, std::vector<Coming>, std::greater<>> coming_;
  double work_ = 0; // of all that run: rate x GPUs
};

} // namespace fikit::simulator::cluster
