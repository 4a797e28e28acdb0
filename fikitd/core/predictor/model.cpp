#include "model.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace fikit::predictor {
namespace {

// Contexts come from users: without a secret they could choose them to fall into one place of the table, and make every
// look-up walk through it. Nothing visible depends on it.
std::uint64_t secret() {
  static const std::uint64_t value = [] {
    try {
      std::random_device device;
      return (std::uint64_t{device()} << 32) ^ device();
    } catch (...) { // no source of entropy: where the loader put us is better than nothing
      return reinterpret_cast<std::uint64_t>(&secret);
    }
  }();
  return value;
}

// The others are sums of these.
bool is_kept(const Context& context) { return context == Context{} || context.full(); }

} // namespace

std::uint64_t Model::Hash::operator()(const Key& key) const noexcept {
  std::uint64_t hash = key.identity ^ secret();
  for (const Identity before : key.context.last) {
    hash = (hash ^ (hash >> 29)) * 0x9e3779b97f4a7c15U;
    hash ^= before;
  }
  hash = (hash ^ (hash >> 32)) * 0xbf58476d1ce4e5b9U;
  return hash ^ (hash >> 29);
}

Identity Model::describe(const Kernel& kernel) {
  const Identity identity = identify(kernel);
  constexpr std::size_t kBeside = 192; // its name
  if (kernels_.size() < kMaxKernels && !kernels_.contains(identity) && claim_.more(kernel.name.size() + kBeside))
    kernels_.try_emplace(identity, kernel);
  return identity;
}

const Kernel* Model::kernel(Identity identity) const {
  const auto it = kernels_.find(identity);
  return it == kernels_.end() ? nullptr : &it->second;
}

Model::Node* Model::at(Identity identity, const Context& context) {
  if (Node* there = nodes_.find({identity, context})) return there;
  const bool has_context = context != Context{};
  if (identity == 0 || (has_context ? contexts_ >= kMaxContexts : nodes_.size() - contexts_ >= kMaxKernels))
    return nullptr;
  constexpr std::size_t kBeside = 64; // its entry: its places
  if (!claim_.more(sizeof(Key) + sizeof(Node) + kBeside)) return nullptr;
  contexts_ += has_context ? 1 : 0;
  return &nodes_.add({identity, context});
}

std::size_t& Model::room() {
  constexpr std::size_t kSome = 1024;
  constexpr std::size_t kBucketBytes = 2 * sizeof(Histogram::value_type); // a vector that grows
  if (room_ < kBuckets && given_ < kMaxBuckets && claim_.more(kSome * kBucketBytes)) {
    room_ += kSome;
    given_ += kSome;
  }
  return room_;
}

void Model::say(Node& node, int depth) {
  static_cast<DurationPrediction&>(node.said) = predict_duration(node.cost, node.drift.level_ns());
  static_cast<GapPrediction&>(node.said) = predict_gap(node.cost);
  node.said.duration_context = static_cast<std::int8_t>(node.said.durations > 0 ? depth : -1);
  node.said.gap_context = static_cast<std::int8_t>(node.said.gaps > 0 ? depth : -1);
}

template <class Change>
void Model::change(Identity identity, const Context& context, Change change_cost) {
  const int deepest = context.full() ? kContext : 0;
  for (int depth = std::min(1, deepest); depth <= deepest; ++depth) {
    Node* node = at(identity, context.newest(depth));
    if (node == nullptr) continue;
    change_cost(node->cost);
    say(*node, depth);
  }
}

void Model::add_duration(Identity identity, const Context& context, std::int64_t ns) {
  const auto add = [&](Cost& cost) { cost.duration.add(ns, room()); };
  change(identity, Context{}, add);
  if (context.full()) change(identity, context, add);
}

void Model::add_gap(Identity identity, const Context& context, std::int64_t ns) {
  const auto add = [&](Cost& cost) { (ns < kBoundaryNs ? cost.gap : cost.boundary).add(ns, room()); };
  change(identity, Context{}, add);
  if (context.full()) change(identity, context, add);
}

// What a prediction would have come from.
Model::Node* Model::nearest(Identity identity, const Context& context, int& depth) {
  for (depth = context.full() ? kContext : 0; depth >= 0; --depth) {
    Node* node = nodes_.find({identity, context.newest(depth)});
    if (node != nullptr && node->said.durations > 0) return node;
  }
  return nullptr;
}

bool Model::has_drifted(Node& node, std::int64_t ns) {
  if (ns < 0 || !node.drift.add(ns, node.cost.duration)) return false;
  ++drift_alarms_;
  room_ += node.cost.duration.histogram().size();
  node.cost.duration = {};
  node.forgotten = true;
  return true;
}

bool Model::learn(Identity identity, const Context& context, std::int64_t ns) {
  int depth = 0;
  Node* node = nearest(identity, context, depth);
  const bool alarm = node != nullptr && has_drifted(*node, ns);
  add_duration(identity, context, ns);
  return alarm;
}

bool Model::follow(Identity identity, const Context& context, std::int64_t ns) {
  int depth = 0;
  Node* node = nearest(identity, context, depth);
  if (node == nullptr) return false;
  const bool alarm = has_drifted(*node, ns);
  if (node->forgotten && node->cost.duration.count() < Drift::kSettled) node->cost.duration.add(ns, room());
  say(*node, depth);
  return alarm;
}

void Model::merge(Identity identity, const Context& context, const Cost& cost) {
  if (!is_kept(context)) return;
  change(identity, context, [&](Cost& mine) {
    mine.duration.merge(cost.duration, room());
    mine.gap.merge(cost.gap, room());
    mine.boundary.merge(cost.boundary, room());
  });
}

void Model::merge(const Model& other) {
  for (const auto& [identity, kernel] : other.kernels_) describe(kernel);
  for (const auto& [key, node] : other.nodes_.entries()) merge(key.identity, key.context, node.cost);
}

template <class Found>
void Model::back_off(Identity identity, const Context& context, Found found) const {
  for (int depth = context.depth(); depth >= 0; --depth) {
    const Node* node = nodes_.find({identity, context.newest(depth)});
    if (node != nullptr && found(*node)) return;
  }
}

// A few runs in one context say nothing of rare long ones: these are taken from more runs, in shorter contexts.
Prediction Model::predict(Identity identity, const Context& context) const {
  Prediction best;
  std::uint32_t runs = 0;
  back_off(identity, context, [&best, &runs](const Node& node) {
    const DurationPrediction& said = node.said;
    if (best.durations == 0) static_cast<DurationPrediction&>(best) = said;
    if (runs < kMany && said.durations > 0) {
      best.duration_tail_ns = std::max(best.duration_tail_ns, said.duration_tail_ns);
      best.duration_longest_ns = std::max(best.duration_longest_ns, said.duration_longest_ns);
      runs = said.durations;
    }
    if (best.gaps == 0) static_cast<GapPrediction&>(best) = node.said;
    return runs >= kMany && best.gaps > 0;
  });
  return best;
}

Model::Quantiles Model::predict_quantile(Identity identity, const Context& context, double q) const {
  Quantiles best;
  back_off(identity, context, [&best, q](const Node& node) {
    const auto& [duration, gap, boundary] = node.cost;
    if (best.duration_ns < 0 && duration.count() > 0) best.duration_ns = std::llround(duration.quantile_ns(q));
    if (best.gap_ns < 0 && gap.count() > 0) best.gap_ns = std::llround(gap.quantile_ns(q));
    return best.duration_ns >= 0 && best.gap_ns >= 0;
  });
  return best;
}

const Cost* Model::gaps(Identity identity, const Context& context) const {
  const Cost* best = nullptr;
  back_off(identity, context, [&best](const Node& node) {
    if (node.said.gaps > 0) best = &node.cost;
    return best != nullptr;
  });
  return best;
}

const Cost* Model::cost(Identity identity) const {
  const Node* node = nodes_.find({identity, {}});
  return node == nullptr ? nullptr : &node->cost;
}

void Model::for_each(const std::function<void(const Kernel&, const Context*, const Cost&)>& visit) const {
  std::vector<std::pair<const Key*, const Cost*>> kept;
  for (const auto& [key, node] : nodes_.entries())
    if (is_kept(key.context)) kept.emplace_back(&key, &node.cost);
  std::sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) {
    const bool in_context = a.first->context.full();
    return in_context != b.first->context.full() ? !in_context : *a.first < *b.first;
  });
  for (const auto& [key, cost] : kept) {
    const auto kernel = kernels_.find(key->identity);
    if (kernel != kernels_.end()) visit(kernel->second, key->context.full() ? &key->context : nullptr, *cost);
  }
}

} // namespace fikit::predictor
