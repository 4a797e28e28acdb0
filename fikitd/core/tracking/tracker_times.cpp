// Times that the shim measured: of a client's kernels, and of the gaps after them.
#include <algorithm>
#include <cmath>

#include "client_tracker.hpp"

namespace fikit::tracking {

predictor::Context ClientTracker::before(const Report& report) const {
  predictor::Context context;
  for (unsigned back = FIKIT_BEFORE_LAUNCHES; back-- > 0;)
    context.push(identity(static_cast<std::uint16_t>(report.before >> (FIKIT_BEFORE_BITS * back))));
  return context;
}

std::uint64_t ClientTracker::seen(predictor::Identity kernel, predictor::Statistics predictor::Cost::*what) const {
  std::uint64_t count = 0;
  for (const Timed* timed : {&profile_, &measured_})
    for (const predictor::Model* model : {&timed->alone, &timed->beside, &timed->doubtful})
      if (const predictor::Cost* cost = model == &profile_.alone ? profiled_cost(kernel) : model->cost(kernel))
        count += (cost->*what).count();
  return count;
}

const predictor::Cost* ClientTracker::profiled_cost(predictor::Identity kernel) const {
  return refuted_.contains(kernel) ? nullptr : profile_.alone.cost(kernel);
}

// In this order the models tell best how long the kernel itself takes.
const predictor::Cost* ClientTracker::cost(predictor::Identity kernel) const {
  for (const auto which : {&Timed::alone, &Timed::doubtful, &Timed::beside})
    for (const Timed* timed : {&profile_, &measured_}) {
      if (timed == &profile_ && which == &Timed::alone && refuted_.contains(kernel)) continue;
      if (has_times(timed->*which, kernel)) return (timed->*which).cost(kernel);
    }
  return nullptr;
}

bool ClientTracker::has_times(const predictor::Model& model, predictor::Identity kernel) {
  const predictor::Cost* cost = model.cost(kernel);
  return cost != nullptr && cost->duration.count() > 0;
}

// Times beside other jobs are too long, and a first launch's time includes the kernel's loading. Such times are kept apart, and only
// while there are few of the kernel.
predictor::Model* ClientTracker::takes(std::uint64_t seen, bool doubtful) {
  constexpr std::uint64_t kEnough = 8;
  const bool alone = measure_ || (alone_ && disturbed_drains_ == 0);
  if (alone && !doubtful) return &measured_.alone;
  if (seen >= kEnough) return nullptr;
  return alone ? &measured_.doubtful : &measured_.beside;
}

void ClientTracker::timed(const Report& report) {
  if (report.slot == 0 || report.slot >= FIKIT_SLOTS) return;
  if (identity(report.slot) == 0) return pending_samples_.keep(report);
  next_.valid = false;
  const auto ns = static_cast<std::int64_t>(std::min<std::uint64_t>(report.value, predictor::kMaxNs));
  if (report.kind == FIKIT_ENTRY_SAMPLE) return sample(report, ns);
  gap(report, ns);
}

void ClientTracker::sample(const Report& report, std::int64_t ns) {
  grant_watch_.confirmed();
  const predictor::Identity kernel = identity(report.slot);
  const bool doubtful = (report.before & FIKIT_TIMED_DOUBTFUL) != 0;
  predictor::Model* model = takes(seen(kernel, &predictor::Cost::duration), doubtful);
  if (model == nullptr) return;
  model->add_duration(kernel, before(report), ns);
  if (model == &measured_.alone) {
    compare_borrowed(kernel, before(report), ns);
    profile_.alone.follow(kernel, before(report), ns);
  }
  say_known(report.slot);
}

// One time is enough: the same kernel on the same kind of data takes about as long.
void ClientTracker::compare_borrowed(predictor::Identity kernel, const predictor::Context& context, std::int64_t ns) {
  constexpr double kChange = predictor::Drift::kChange;
  if (unconfirmed_.erase(kernel) == 0) return;
  const auto time = static_cast<double>(ns);
  const auto least = static_cast<double>(profile_.alone.predict_quantile(kernel, context, 0.1).duration_ns);
  const auto most = static_cast<double>(profile_.alone.predict(kernel, context).duration_high_ns);
  if (time < (1 - kChange) * least || time > (1 + kChange) * most) refuted_.insert(kernel);
}

void ClientTracker::gap(const Report& report, std::int64_t ns) {
  const predictor::Identity kernel = identity(report.slot);
  predictor::Model* model = takes(seen(kernel, ns < predictor::kBoundaryNs ? &predictor::Cost::gap : &predictor::Cost::boundary), false);
  if (model == nullptr) return;
  model->add_gap(kernel, before(report), ns);
  say_known(report.slot);
}

// The shim reports samples after a drain, at times after the next one: so two drains pass before samples are of work that ran alone.
void ClientTracker::set_alone(bool alone) {
  constexpr int kDrains = 2;
  if (alone_ && !alone) disturbed_drains_ = kDrains;
  alone_ = alone;
}

void ClientTracker::describe(std::uint32_t slot, const predictor::Kernel& kernel) {
  identities_.at(slot) = measured_.alone.describe(kernel);
  measured_.beside.describe(kernel);
  measured_.doubtful.describe(kernel);
  collective_kernels_.describe(slot, kernel.kind == FIKIT_KIND_COOPERATIVE);
  for (const Report& report : pending_samples_.take(slot)) timed(report);
  say_known(slot);
}

void ClientTracker::set_profile(Timed profile, const forecaster::Learnt& before, std::shared_ptr<const predictor::AccessesLearnt> accesses) {
  profile_ = std::move(profile);
  unconfirmed_ = profile_.borrowed;
  refuted_.clear();
  for (const predictor::Identity kernel : profile_.borrowed) // of a run that goes on with a new profile, some may be timed already
    if (has_times(measured_.alone, kernel))
      compare_borrowed(kernel, {}, std::llround(measured_.alone.cost(kernel)->duration.mean_ns()));
  next_.valid = false;
  forecaster_.expect(before);
  if (accesses_ != nullptr)
    accesses_->expect(std::move(accesses));
  else
    accesses_before_ = std::move(accesses);
  for (std::uint32_t slot = 1; slot < FIKIT_SLOTS; ++slot)
    if (identities_[slot] != 0) say_known(slot);
}

void ClientTracker::say_known(std::uint32_t slot) {
  const predictor::Cost* cost = slot < FIKIT_SLOTS ? this->cost(identity(slot)) : nullptr;
  if (cost == nullptr) return;
  constexpr std::uint64_t kOften = 32;
  const bool gap = cost->gap.mean_ns() > static_cast<double>(min_gap_ns_) ||
                   cost->boundary.count() * kOften > cost->duration.count();
  page_.set_known(slot, gap);
}

} // namespace fikit::tracking
