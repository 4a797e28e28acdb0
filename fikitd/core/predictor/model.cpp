#include "model.hpp"

#include <algorithm>
#include <cmath>

namespace fikit::predictor {

std::size_t Model::Hash::operator()(const Key& key) const noexcept {
  std::uint64_t hash = key.identity;
  for (const Identity before : key.context.last) hash = (hash ^ (hash >> 29)) * 0x9e3779b97f4a7c15U + before;
  return hash ^ (hash >> 32);
}

Identity Model::describe(const Kernel& kernel) {
  const Identity identity = identify(kernel);
  if (kernels_.size() < kMaxKernels) kernels_.try_emplace(identity, kernel);
  return identity;
}

Cost* Model::at(const Key& key) {
  const auto it = costs_.find(key);
  if (it != costs_.end()) return &it->second;
  const bool has_context = key.context != Context{};
  if (key.identity == 0 || costs_.size() >= (has_context ? kMaxContexts : kMaxContexts + kMaxKernels)) return nullptr;
  return &costs_[key];
}

void Model::add_duration(Identity identity, const Context& context, std::int64_t ns) {
  if (Cost* cost = at({identity, {}})) cost->duration.add(ns);
  if (!context.full()) return;
  if (Cost* cost = at({identity, context})) cost->duration.add(ns);
}

void Model::add_gap(Identity identity, const Context& context, std::int64_t ns) {
  if (Cost* cost = at({identity, {}})) cost->gap.add(ns);
  if (!context.full()) return;
  if (Cost* cost = at({identity, context})) cost->gap.add(ns);
}

void Model::merge(Identity identity, const Cost& cost) { merge(identity, Context{}, cost); }

void Model::merge(Identity identity, const Context& context, const Cost& cost) {
  Cost* mine = at({identity, context});
  if (mine == nullptr) return;
  mine->duration.merge(cost.duration);
  mine->gap.merge(cost.gap);
}

void Model::merge(const Model& other) {
  for (const auto& [identity, kernel] : other.kernels_) describe(kernel);
  for (const auto& [key, cost] : other.costs_) merge(key.identity, key.context, cost);
}

template <class Duration, class Gap>
Prediction Model::back_off(Identity identity, const Context& context, Duration of_duration, Gap of_gap) const {
  Prediction found;
  for (const Context& used : {context, Context{}}) {
    const auto it = costs_.find({identity, used});
    if (it == costs_.end()) continue;
    const auto& [duration, gap] = it->second;
    if (found.duration_ns < 0 && duration.count() > 0) found.duration_ns = std::llround(of_duration(duration));
    if (found.gap_ns < 0 && gap.count() > 0) found.gap_ns = std::llround(of_gap(gap));
  }
  return found;
}

Prediction Model::predict(Identity identity, const Context& context) const {
  return back_off(
      identity, context, [](const Statistics& s) { return s.mean_ns(); },
      [](const Statistics& s) { return std::min(s.mean_ns(), s.quantile_ns(0.5)); });
}

Prediction Model::predict_quantile(Identity identity, const Context& context, double q) const {
  const auto value = [q](const Statistics& s) { return s.quantile_ns(q); };
  return back_off(identity, context, value, value);
}

const Cost* Model::cost(Identity identity) const {
  const auto it = costs_.find({identity, {}});
  return it == costs_.end() ? nullptr : &it->second;
}

void Model::for_each(const std::function<void(const Kernel&, const Context*, const Cost&)>& visit) const {
  for (const bool with_context : {false, true}) {
    for (const auto& [key, cost] : costs_) {
      if ((key.context != Context{}) != with_context) continue;
      const auto kernel = kernels_.find(key.identity);
      if (kernel == kernels_.end()) continue;
      visit(kernel->second, with_context ? &key.context : nullptr, cost);
    }
  }
}

} // namespace fikit::predictor
