// What the reports of all clients of a GPU together say of it. Used by its dispatcher thread only.
#pragma once

#include <cstdint>
#include <optional>

#include "device_use.hpp"
#include "policy/policy.hpp"
#include "switch_meter.hpp"

namespace fikit::tracking {

struct Traffic {
  explicit Traffic(const policy::Tuning& tuning) : switches(tuning.turn_ns) {}

  std::uint64_t kernels = 0; // launched on it so far
  std::int64_t works_ns = 0; // predicted device time of these; a lease for each of unknown length
  std::uint64_t under_way = 0; // launches that are not known to be complete
  DeviceUse use;
  SwitchMeter switches;
  // The switch that an earlier fikitd measured, until this one has measured it.
  std::optional<SwitchCost> remembered;

  // Tells the policy what has been measured, once in kNews samples: the medians take a while to compute.
  void tell(policy::Policy& policy) {
    constexpr std::uint64_t kNews = 64;
    if (switches.count() / kNews != told_samples_ / kNews) tell_now(policy);
  }
  void tell_now(policy::Policy& policy);

 private:
  std::uint64_t told_samples_ = 0; // switches.count() when the policy was last told
};

} // namespace fikit::tracking
