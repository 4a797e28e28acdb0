// What the predictor knows of a client's future, in the words of the policy's events. Dispatcher and simulator feed their
// policies through this, so that what was tried in the simulator is what runs.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "policy/policy.hpp"
#include "predictor/segment_alone.hpp"
#include "predictor/accesses.hpp"
#include "predictor/copies.hpp"
#include "predictor/prediction.hpp"
#include "predictor/rhythm.hpp"
#include "predictor/runs.hpp"
#include "predictor/segment_alone.hpp"

namespace fikit::forecaster {

// What an event says of its client alone, by this reckoning: where no Forecaster has said it, or somebody knows better.
void foretell(predictor::SegmentAlone& alone, policy::Event& event);

// What runs of a program have learnt of it, as its profile keeps it.
struct Learnt {
  predictor::RhythmLearnt rhythm;
  predictor::RunsLearnt runs;
  predictor::AccessesLearnt accesses; // what its kernels touch; of clients whose shim says it (tracking), nothing of others
};

// Of one client.
class Forecaster {
 public:
  Forecaster() = default;
  // others: how many kernels all the other clients have sent to the device before this one is there.
  Forecaster(const policy::Tuning& tuning, std::uint64_t others)
      : rhythm_(rhythm(tuning)), runs_(runs(tuning)), others_(others), others_before_(others) {}
  static predictor::Rhythm rhythm(const policy::Tuning& tuning, predictor::Rhythm known = {}) {
    known.set_long_idle(static_cast<std::int64_t>(tuning.long_idle_ns));
    return known;
  }
  static predictor::Runs runs(const policy::Tuning& tuning) {
    return {static_cast<std::int64_t>(tuning.longest_run_ns), static_cast<std::int64_t>(tuning.rest_run_ns)};
  }
  Forecaster(predictor::Rhythm rhythm, predictor::Runs runs) : rhythm_(std::move(rhythm)), runs_(std::move(runs)) {}

  // From now on only as much is learnt as this has room for.
  void keep_within(const std::shared_ptr<predictor::Room>& room) {
    rhythm_.keep_within(room);
    runs_.keep_within(room);
  }

  // For the event `profiled`.
  policy::Outlook profiled() const {
    policy::Outlook outlook;
    outlook.slack = rhythm_.any_slack();
    return outlook;
  }
  // For the event `waiting`, where a grant may cover several launches: those that are likely to follow this one.
  policy::Outlook waiting(predictor::Identity identity, const predictor::Prediction& predicted) const;
  // For the event `launched`. exclusive: no run goes beyond it, for it fills no gap. granted: on a grant, which may be made to
  // cover what follows.
  policy::Outlook launched(std::int64_t t_ns, predictor::Identity identity, const predictor::Prediction& predicted,
                           bool exclusive = false, bool granted = false);
  // For the event `drained`, when the client's host waited for all its work until t_ns, from began_ns on (kLongAgo: nobody
  // knows). others: how many kernels all the other clients have sent to the device so far.
  policy::Outlook waited(std::int64_t t_ns, std::uint64_t others, std::int64_t began_ns = kLongAgo);
  // For the event `copied`.
  policy::Outlook copied(policy::Engine engine, std::int64_t t_ns, std::uint64_t bytes) {
    policy::Outlook outlook;
    outlook.idle = copies(engine).copied(t_ns, bytes);
    return outlook;
  }
  predictor::Copies& copies(policy::Engine engine) { return copies_[policy::copy_engine(engine)]; }

  // Launches were not seen: what is launched until the next wait teaches nothing.
  void missed(std::int64_t t_ns);

  // What earlier runs of the same program have learnt.
  void expect(const Learnt& before) {
    rhythm_.expect(before.rhythm);
    runs_.expect(before.runs);
  }
  Learnt learnt() const { return {.rhythm = rhythm_.learnt(), .runs = runs_.learnt(), .accesses = {}}; } // by this run
  const predictor::Rhythm& rhythm() const { return rhythm_; }
  const predictor::Runs& runs() const { return runs_; }

 private:
  // By how much launches took longer than predicted at the longest: the most of the newest kMany to 2 kMany launches.
  class Longer {
   public:
    void launched(std::int64_t longer_ns) {
      if (launches_++ % kMany == 0) before_ns_ = std::exchange(now_ns_, 0);
      now_ns_ = std::max(now_ns_, longer_ns);
    }
    std::int64_t most_ns() const { return std::max(now_ns_, before_ns_); }

   private:
    static constexpr std::size_t kMany = 1024;
    std::size_t launches_ = 0;
    std::int64_t now_ns_ = 0;
    std::int64_t before_ns_ = 0;
  };

  predictor::Rhythm rhythm_;
  predictor::Runs runs_;
  Longer longer_;
  std::array<predictor::Copies, policy::kCopyEngines> copies_; // by engine
  bool in_segment_ = false;
  std::uint64_t others_ = 0;        // at the last wait; before the first, at the beginning
  std::uint64_t others_before_ = 0; // at the one before
};

} // namespace fikit::forecaster
