// What became of a low job's time: whether the first job had the device, and what kept this one from having it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "policy/base/reason.hpp"

namespace fikit::simulator {

class Split {
 public:
  static constexpr std::size_t kRuns = 0;   // a kernel of it runs
  static constexpr std::size_t kQueued = 1; // one has been launched, and none runs
  static constexpr std::size_t kHost = 2;   // its host computes, or waits for a copy
  static constexpr std::size_t at_gate(policy::Reason reason) { return 3 + static_cast<std::size_t>(reason); }
  static constexpr std::size_t kStates = 3 + policy::kReasonNames.size();
  static constexpr std::string_view name(std::size_t state) {
    constexpr std::array<std::string_view, 3> kNames{"runs", "queued", "host"};
    return state < kNames.size() ? kNames[state] : policy::kReasonNames[state - kNames.size()];
  }

  void spent(std::int64_t ns, std::size_t state, bool first_runs) { (first_runs ? below_ : free_)[state] += ns; }
  std::int64_t ns(std::size_t state, bool first_runs) const { return (first_runs ? below_ : free_)[state]; }

 private:
  std::array<std::int64_t, kStates> below_{}; // while a kernel of the first job runs
  std::array<std::int64_t, kStates> free_{};
};

} // namespace fikit::simulator
