// What one client's kernels cost: per identity, and per identity after the one, two and three kernels before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>

#include "drift.hpp"
#include "kernel.hpp"
#include "prediction.hpp"
#include "room.hpp"
#include "table.hpp"

namespace fikit::predictor {

class Model {
 public:
  // A program, or a profile, cannot fill the daemon's memory: contexts learnt beyond this are not kept (their kernels still
  // are, without context), and histograms that may not grow any more become coarse.
  static constexpr std::size_t kMaxContexts = 32768; // of one, two and three kernels together
  static constexpr std::size_t kMaxKernels = 16384;
  static constexpr std::size_t kMaxBuckets = std::size_t{1} << 19;
  static constexpr std::uint32_t kMany = 64; // runs that say how long rare ones take

  // From now on only as much is kept as this has room for.
  void keep_within(std::shared_ptr<Room> room) { claim_ = Claim(std::move(room)); }

  // Makes the kernel known by name, so that it can be exported; returns its identity.
  Identity describe(const Kernel& kernel);

  // Collects. Contexts that are not full count for the identity only. add_gap tells boundaries from gaps.
  void add_duration(Identity identity, const Context& context, std::int64_t ns);
  void add_gap(Identity identity, const Context& context, std::int64_t ns);
  // add_duration for a model that is predicted from meanwhile: predictions follow a kernel that takes other times than it
  // used to. True: by 30 % (an alarm); what was known of it in this context is then forgotten.
  bool learn(Identity identity, const Context& context, std::int64_t ns);
  // Only that, for a profile that runs are compared with: what it says stays until it is no longer so.
  bool follow(Identity identity, const Context& context, std::int64_t ns);
  std::uint64_t drift_alarms() const { return drift_alarms_; }

  // From a profile: statistics over all contexts, or in a full one; others are left out.
  void merge(Identity identity, const Context& context, const Cost& cost);
  void merge(const Model& other);

  // As seen after these three kernels, else after the last two, the last one, in any context, else unknown: duration and
  // gap each by the longest context that knows it; tail and longest of contexts until one has kMany runs. No allocation.
  Prediction predict(Identity identity, const Context& context) const;
  struct Quantiles {
    std::int64_t duration_ns = kUnknown;
    std::int64_t gap_ns = kUnknown; // inside a request
  };
  Quantiles predict_quantile(Identity identity, const Context& context, double q) const;

  // The distributions behind a prediction, by the longest context with a gap or boundary; nullptr when there are none.
  const Cost* gaps(Identity identity, const Context& context) const;
  // Over all contexts; nullptr when nothing is known.
  const Cost* cost(Identity identity) const;
  // As it was described; nullptr when it was not.
  const Kernel* kernel(Identity identity) const;

  // Calls with every described kernel that has statistics, in an order of its own: first all without context (nullptr),
  // then with each context of three. Shorter contexts are sums of these.
  void for_each(const std::function<void(const Kernel&, const Context*, const Cost&)>& visit) const;
  bool empty() const { return nodes_.size() == 0; }

 private:
  struct Key {
    Identity identity = 0;
    Context context; // newest() of as many as count; all 0: over all contexts
    auto operator<=>(const Key&) const = default;
  };
  struct Hash {
    std::uint64_t operator()(const Key& key) const noexcept;
  };
  struct Node {
    Prediction said; // of `cost`, kept beside the key: a prediction is a look-up
    Cost cost;
    Drift drift;
    bool forgotten = false; // it drifted: what is known began anew
  };
  Node* at(Identity identity, const Context& context);
  template <class Change>
  void change(Identity identity, const Context& context, Change change_cost); // in contexts of 1, 2, 3, or in none
  template <class Found>
  void back_off(Identity identity, const Context& context, Found found) const; // until found(node), longest context first
  Node* nearest(Identity identity, const Context& context, int& depth);
  bool has_drifted(Node& node, std::int64_t ns);
  static void say(Node& node, int depth);
  std::size_t& room(); // for histograms, to grow into

  std::unordered_map<Identity, Kernel> kernels_;
  Table<Key, Node, Hash> nodes_;
  std::size_t contexts_ = 0;
  std::size_t room_ = 0; // of `given_` buckets those that are left
  std::size_t given_ = 0;
  Claim claim_;
  std::uint64_t drift_alarms_ = 0;
};

} // namespace fikit::predictor
