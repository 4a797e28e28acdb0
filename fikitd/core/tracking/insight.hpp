// Somebody who knows more of a client than its profile and its reports say, as a simulation's oracle does.
#pragma once

#include "policy/base/events.hpp"
#include "predictor/prediction.hpp"

namespace fikit::tracking {

class Insight {
 public:
  virtual ~Insight() = default;
  // Of the launch that is reported, or that stands at the gate.
  virtual void predicts(predictor::Prediction& predicted) = 0;
  // What the policy is about to be told.
  virtual void tells(policy::Event& event) = 0;
};

} // namespace fikit::tracking
