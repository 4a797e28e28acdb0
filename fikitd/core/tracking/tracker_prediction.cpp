// What a client's next launch is expected to take: by its profile, and by what this run has taught.
#include <algorithm>
#include <cmath>

#include "client_tracker.hpp"

namespace fikit::tracking {

// A launch that stood at the gate was predicted there: its context, and what is known, are the same as then. An insight may know
// which launch it is by now.
const ClientTracker::Predicted& ClientTracker::predict(predictor::Identity kernel) {
  if (next_.valid && next_.kernel == kernel && next_.launches == launches_) return next_.predicted;
  next_.predicted.profiled = profiled(kernel);
  next_.predicted.alone = next_.predicted.profiled;
  complete(next_.predicted.alone, measured_.alone, kernel);
  next_.predicted.completed = next_.predicted.alone;
  complete(next_.predicted.completed, kernel);
  if (insight_ != nullptr) insight_->predicts(next_.predicted.completed);
  next_.kernel = kernel;
  next_.launches = launches_;
  next_.valid = true;
  return next_.predicted;
}

// What is borrowed may be of other data: until this run has timed the kernel it may take as much longer as a drift would be, and of
// its gaps only what nine of ten last is counted on.
predictor::Prediction ClientTracker::profiled(predictor::Identity kernel) const {
  constexpr double kLonger = 1 + predictor::Drift::kChange;
  if (profile_.borrowed.empty()) return profile_.alone.predict(kernel, launched_context_); // as usual: each launch asks
  if (refuted_.contains(kernel)) return {};
  predictor::Prediction said = profile_.alone.predict(kernel, launched_context_);
  if (!unconfirmed_.contains(kernel)) return said;
  if (said.durations > 0)
    said.duration_high_ns = std::max<std::int64_t>(said.duration_high_ns, std::llround(kLonger * static_cast<double>(said.duration_ns)));
  if (said.gap_low_ns >= 0) said.gap_ns = std::min(said.gap_ns, said.gap_low_ns);
  return said;
}

// What the run that is going on has taught stands in for what its profile does not know. Of times that are not its own alone, those
// beside others rather than doubtful ones: who grants a kernel errs less by a time that is too long.
void ClientTracker::complete(predictor::Prediction& found, predictor::Identity kernel) const {
  for (const predictor::Model* model : {&profile_.beside, &measured_.beside, &profile_.doubtful, &measured_.doubtful})
    complete(found, *model, kernel);
}

void ClientTracker::complete(predictor::Prediction& found, const predictor::Model& model, predictor::Identity kernel) const {
  if (found.durations > 0 && found.gaps > 0) return;
  const predictor::Prediction learnt = model.predict(kernel, launched_context_);
  if (found.durations == 0) static_cast<predictor::DurationPrediction&>(found) = learnt;
  if (found.gaps == 0) static_cast<predictor::GapPrediction&>(found) = learnt;
}

} // namespace fikit::tracking
