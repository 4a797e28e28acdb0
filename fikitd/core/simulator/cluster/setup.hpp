// What a simulated cluster is given: jobs, GPUs, the rules by which jobs are placed; and what comes of it.
#pragma once

#include <cstdint>
#include <vector>

#include "placement/history.hpp"
#include "placement/offer.hpp"
#include "placement/slowdowns.hpp"

namespace fikit::simulator::cluster {

// Seconds from the trace's beginning, or of run time alone.
struct ClusterJob {
  double submit_s = 0;
  double work_s = 0;     // what it really takes alone
  double expected_s = 0; // what a prediction says before it starts; infinity: there is none
  int gpus = 1;          // a job of several has them to itself
  int shards = 1;        // of memory, GiB
  double busy = 1;       // share of its time alone in which its kernels are on the device
  int kind = -1;         // among measured pairs
};

// Which waiting job comes first.
enum class Queue { arrival, shortest };

// What happens to those behind a waiting job that does not fit.
enum class Behind {
  waits,    // they wait, too
  fits,     // each that fits starts
  reserves, // they start where they do not delay it, by what is expected (EASY backfill)
};

// On which GPU a job of one GPU starts.
enum class Sharing {
  none,      // on one of its own
  first_fit, // the first with room
  idle_first, // one that is idle, else the first with room
  spread,    // the one of which least memory is taken
  best,      // one that is idle, else where the sum of ends gains most
  agent,     // the same, but a job for which no GPU had room starts on the least taken one as soon as there is room: Slurm does
};

struct ClusterPolicy {
  Queue queue = Queue::arrival;
  double max_wait_s = placement::kNoLimit; // of Queue::shortest: who has waited so long is first, in order of arrival
  Behind behind = Behind::reserves;
  Sharing sharing = Sharing::none;
  placement::Rules rules; // who goes first on a GPU holds for all; the rest for Sharing::best, but `most`
};

struct ClusterSetup {
  int gpus = 1;
  int shards_per_gpu = 80;
  // What a prediction is worth: earlier runs took expected_s x each of these. {1}: it is believed to be right.
  std::vector<double> history{1.0};
  ClusterPolicy policy;
  const placement::Slowdowns* real = nullptr;     // what sharing does
  const placement::Slowdowns* believed = nullptr; // what the rules know of it
};

// At one moment: GPUs that somebody has, and the work that they do, 1 = a job of one GPU as fast as alone.
struct Use {
  double t_s = 0;
  double taken = 0;
  double work = 0;
};

struct ClusterResult {
  std::vector<double> start_s; // by job
  std::vector<double> end_s;
  std::vector<Use> use;    // at each event after which it is another
  std::int64_t events = 0; // that were handled
  std::int64_t offers = 0; // that were considered
};

// Raises std::invalid_argument with one sentence about the first job that has numbers which cannot be.
void check(const std::vector<ClusterJob>& jobs);

// Lives through all jobs. Raises std::invalid_argument with one sentence about what cannot be: a job that never fits, times
// that are no numbers, no history.
ClusterResult simulate_cluster(const ClusterSetup& setup, const std::vector<ClusterJob>& jobs);

// Schedulers that stop and resume jobs, of whole GPUs, as the simulators of Tiresias and Muri have them.
enum class Preemption {
  remaining,     // shortest remaining time first
  remaining_gpu, // remaining time x GPUs (SRSF)
  attained,      // least attained GPU time, in queues (Tiresias, discretized 2D-LAS)
};

struct PreemptiveSetup {
  Preemption rule = Preemption::remaining;
  int nodes = 1;
  int gpus_per_node = 1;
  bool consolidated = false;         // a job's GPUs are on one node, of more than a node's on whole nodes; false: any
  std::vector<double> queue_limits_s; // attained GPU time at which a job leaves a queue for the next
  bool every_event = true; // a job loses its toll in each stretch between two events (Muri's simulator); false: when it is resumed
};

// toll_s: by job, what starting or resuming it costs; empty: nothing. Every job is placed anew at every event, in the rule's order.
ClusterResult simulate_preemptive(const PreemptiveSetup& setup, const std::vector<ClusterJob>& jobs, const std::vector<double>& toll_s);

} // namespace fikit::simulator::cluster
