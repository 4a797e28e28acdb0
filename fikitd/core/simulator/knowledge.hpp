// What predictions of a simulated job rest on: on what a dispatcher has, on less, or on what will really be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_set>

#include "job.hpp"
#include "predictor/segment_alone.hpp"
#include "predictor/statistics.hpp"
#include "tracking/insight.hpp"

namespace fikit::simulator {

enum class Knowledge : std::uint8_t {
  context, // a kernel, after the last three
  kernel,  // a kernel, whatever was before it, as the paper has it
  truth,   // real durations, real slack, real arrivals
};

// Of one job.
class Knowing final : public tracking::Insight {
 public:
  // forgets: a kernel is known once it has run. Errors of predictions are added to `misprediction`.
  Knowing(const Job& job, Knowledge knowledge, const bool& forgets, predictor::Statistics& misprediction)
      : job_(job), knowledge_(knowledge), forgets_(forgets), misprediction_(misprediction) {}

  void at(std::size_t step) { step_ = step; } // of what its tracker looks at next
  void predicts(predictor::Prediction& predicted) override;
  void tells(policy::Event& event) override;

 private:
  void foretell_launch(policy::Event& event) const;
  void foretell_wait(policy::Event& event) const;

  const Job& job_;
  Knowledge knowledge_;
  const bool& forgets_;
  predictor::Statistics& misprediction_;
  std::size_t step_ = 0;
  std::size_t launched_ = 0; // the step of the last launch
  predictor::SegmentAlone alone_;   // by what will really be
  std::unordered_set<predictor::Identity> met_;
};

} // namespace fikit::simulator
