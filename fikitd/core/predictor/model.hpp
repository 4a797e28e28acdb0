// What one client's kernels cost: duration (SK) and idle time afterwards (SG) per identity, and per identity in context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>

#include "kernel.hpp"
#include "statistics.hpp"

namespace fikit::predictor {

inline constexpr std::int64_t kUnknown = -1;

struct Cost {
  Statistics duration;
  Statistics gap;
};

struct Prediction {
  std::int64_t duration_ns = kUnknown;
  std::int64_t gap_ns = kUnknown;
};

class Model {
 public:
  // Contexts learnt beyond this are not kept (their kernels still are, without context): a program, or a profile,
  // cannot fill the daemon's memory.
  static constexpr std::size_t kMaxContexts = 32768;
  static constexpr std::size_t kMaxKernels = 16384;

  // Makes the kernel known by name, so that it can be exported; returns its identity.
  Identity describe(const Kernel& kernel);

  void add_duration(Identity identity, const Context& context, std::int64_t ns);
  void add_gap(Identity identity, const Context& context, std::int64_t ns);
  // From a profile; without context the statistics are those over all contexts.
  void merge(Identity identity, const Cost& cost);
  void merge(Identity identity, const Context& context, const Cost& cost);
  void merge(const Model& other);

  // Mean duration and mean gap: as seen after these three kernels, else over all contexts, else unknown.
  // Duration and gap back off separately. No allocation. A gap is never predicted longer than its median: compilation
  // at start-up and loader stalls are rare and a thousand times longer than the rest, and would be believed every time.
  Prediction predict(Identity identity, const Context& context) const;
  // The same with quantiles in place of means.
  Prediction predict_quantile(Identity identity, const Context& context, double q) const;
  // Over all contexts; nullptr when nothing is known.
  const Cost* cost(Identity identity) const;

  // Calls with every described kernel that has statistics: once without context (nullptr), then for each context.
  void for_each(const std::function<void(const Kernel&, const Context*, const Cost&)>& visit) const;
  bool empty() const { return costs_.empty(); }

 private:
  struct Key {
    Identity identity = 0;
    Context context; // all 0: over all contexts
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept;
  };
  Cost* at(const Key& key);
  template <class Duration, class Gap>
  Prediction back_off(Identity identity, const Context& context, Duration of_duration, Gap of_gap) const;

  std::unordered_map<Identity, Kernel> kernels_;
  std::unordered_map<Key, Cost, Hash> costs_;
};

} // namespace fikit::predictor
