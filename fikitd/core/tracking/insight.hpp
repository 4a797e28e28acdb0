// Knowledge of a client beyond its profile and its reports: the simulator's oracle, which knows the recording.
#pragma once

#include "policy/base/events.hpp"
#include "predictor/prediction.hpp"

namespace fikit::tracking {

class Insight {
 public:
  virtual ~Insight() = default;
  // May change the prediction of the launch that is reported or stands at the gate.
  virtual void predicts(predictor::Prediction& predicted) = 0;
  // May change an event before the policy gets it.
  virtual void tells(policy::Event& event) = 0;
};

} // namespace fikit::tracking
