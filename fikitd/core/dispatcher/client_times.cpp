// What the shim timed of a client: how long its kernels ran, and the gaps behind them.
#include <algorithm>

#include "client.hpp"

namespace fikit::dispatcher {

predictor::Context Client::before(const Report& report) const {
  predictor::Context context;
  for (unsigned back = FIKIT_BEFORE_LAUNCHES; back-- > 0;)
    context.push(identity(static_cast<std::uint16_t>(report.before >> (FIKIT_BEFORE_BITS * back))));
  return context;
}

std::uint64_t Client::seen(predictor::Identity kernel, predictor::Statistics predictor::Cost::*what) const {
  std::uint64_t count = 0;
  for (const predictor::Model* model : {&profile_.alone, &measured_.alone, &profile_.beside, &measured_.beside})
    if (const predictor::Cost* cost = model->cost(kernel)) count += (cost->*what).count();
  return count;
}

// Best known first, as predictions have it (complete()).
const predictor::Cost* Client::cost(predictor::Identity kernel) const {
  for (const predictor::Model* model : {&profile_.alone, &measured_.alone, &profile_.beside, &measured_.beside})
    if (const predictor::Cost* cost = model->cost(kernel); cost != nullptr && cost->duration.count() > 0) return cost;
  return nullptr;
}

// Others on the GPU make times longer than they are alone: such ones are taken only for want of better ones, and apart.
predictor::Model* Client::takes(std::uint64_t seen) {
  constexpr std::uint64_t kEnough = 8;
  if (measure_ || (alone_ && disturbed_drains_ == 0)) return &measured_.alone;
  return seen < kEnough ? &measured_.beside : nullptr;
}

void Client::timed(const Report& report) {
  if (report.slot == 0 || report.slot >= FIKIT_SLOTS) return;
  if (identity(report.slot) == 0) return timed_nameless_.keep(report);
  const auto ns = static_cast<std::int64_t>(std::min<std::uint64_t>(report.value, predictor::kMaxNs));
  if (report.kind == FIKIT_ENTRY_SAMPLE) return sample(report, ns);
  gap(report, ns);
}

void Client::sample(const Report& report, std::int64_t ns) {
  const predictor::Identity kernel = identity(report.slot);
  predictor::Model* model = takes(seen(kernel, &predictor::Cost::duration));
  if (model == nullptr) return;
  model->add_duration(kernel, before(report), ns);
  if (model == &measured_.alone) profile_.alone.follow(kernel, before(report), ns);
  say_known(report.slot);
}

void Client::gap(const Report& report, std::int64_t ns) {
  const predictor::Identity kernel = identity(report.slot);
  predictor::Model* model = takes(seen(kernel, ns < predictor::kBoundaryNs ? &predictor::Cost::gap : &predictor::Cost::boundary));
  if (model == nullptr) return;
  model->add_gap(kernel, before(report), ns);
  say_known(report.slot);
}

// Samples come in after a drain, those of the work before a drain possibly after it.
void Client::set_alone(bool alone) {
  constexpr int kDrains = 2;
  if (alone_ && !alone) disturbed_drains_ = kDrains;
  alone_ = alone;
}

void Client::say_known(std::uint32_t slot) {
  const predictor::Cost* cost = slot < FIKIT_SLOTS ? this->cost(identity(slot)) : nullptr;
  if (cost == nullptr) return;
  constexpr std::uint64_t kOften = 32;
  const bool gap = cost->gap.mean_ns() > static_cast<double>(epsilon_ns_) ||
                   cost->boundary.count() * kOften > cost->duration.count();
  page_.set_known(slot, gap);
}

} // namespace fikit::dispatcher
