// How long a client's next launch is expected to take, by its profile and by what this run has measured.
#include <algorithm>
#include <cmath>

#include "client_tracker.hpp"

namespace fikit::tracking {

// A launch that stood at the gate keeps the prediction made there: neither its context nor the models have changed since.
const ClientTracker::Predicted& ClientTracker::predict(std::uint32_t slot, std::int64_t t_ns) {
  const predictor::Identity kernel = identity(slot);
  if (next_.valid && next_.kernel == kernel && next_.launches == launches_) return next_.predicted;
  next_.predicted.profiled = profiled(kernel);
  next_.predicted.alone = next_.predicted.profiled;
  complete(next_.predicted.alone, measured_.alone, kernel);
  next_.predicted.completed = next_.predicted.alone;
  complete(next_.predicted.completed, kernel);
  if (insight_ != nullptr) insight_->predicts(next_.predicted.completed);
  if (closed_) doubt(next_.predicted.completed, slot, t_ns);
  next_.kernel = kernel;
  next_.launches = launches_;
  next_.valid = true;
  return next_.predicted;
}

// What the client's grants really took counts beside what is said of its kernels.
void ClientTracker::doubt(predictor::DurationPrediction& found, std::uint32_t slot, std::int64_t t_ns) const {
  if (grant_watch_.silent()) found = {};
  if (found.durations == 0) return;
  const std::int64_t feared_ns = grant_watch_.feared_ns(slot, t_ns);
  const std::int64_t least_ns = grant_watch_.least_ns(slot);
  found.duration_tail_ns = std::max(found.duration_tail_ns, feared_ns);
  found.duration_longest_ns = std::max({found.duration_longest_ns, feared_ns, grant_watch_.longest_ns(slot, t_ns)});
  for (std::int64_t* ns : {&found.duration_ns, &found.duration_mean_ns, &found.duration_high_ns}) *ns = std::max(*ns, least_ns);
}

// A borrowed prediction may be of other data. Until this run has timed the kernel, its upper bound is raised by what would count as
// drift, and its gap is lowered to what nine of ten gaps exceed.
predictor::Prediction ClientTracker::profiled(predictor::Identity kernel) const {
  constexpr double kLonger = 1 + predictor::Drift::kChange;
  if (profile_.borrowed.empty()) return profile_.alone.predict(kernel, launched_context_); // the usual case, on every launch
  if (refuted_.contains(kernel)) return {};
  predictor::Prediction said = profile_.alone.predict(kernel, launched_context_);
  if (!unconfirmed_.contains(kernel)) return said;
  if (said.durations > 0)
    for (std::int64_t* most_ns : {&said.duration_high_ns, &said.duration_longest_ns})
      *most_ns = std::max<std::int64_t>(*most_ns, std::llround(kLonger * static_cast<double>(said.duration_ns)));
  if (said.gap_low_ns >= 0) said.gap_ns = std::min(said.gap_ns, said.gap_low_ns);
  return said;
}

// Fills what the profile does not know with times of this run. Times beside others come before doubtful ones: for a grant a time that is
// too long does less harm than one that is too short.
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
