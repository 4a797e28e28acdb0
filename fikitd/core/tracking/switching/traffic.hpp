// What all clients of a GPU together tell of it. Of its dispatcher's thread.
#pragma once

#include <cstdint>
#include <optional>

#include "device_use.hpp"
#include "policy/policy.hpp"
#include "switch_meter.hpp"

namespace fikit::tracking {

struct Traffic {
  explicit Traffic(const policy::Tuning& tuning) : switches(tuning.turn_ns) {}

  std::uint64_t kernels = 0; // that they sent to it
  std::uint64_t under_way = 0; // launches that are not known to be complete
  DeviceUse use;
  SwitchMeter switches;
  policy::Sharing sharing = policy::Sharing::unknown;
  // What an earlier run measured; a measurement of this one takes its place.
  std::optional<SwitchCost> remembered;

  // The policy, of what has been measured: now and then, for it takes a while to reckon.
  void tell(policy::Policy& policy) {
    constexpr std::uint64_t kNews = 64; // beginnings
    if (switches.count() / kNews != wait_reasons_ / kNews) tell_now(policy);
  }
  void tell_now(policy::Policy& policy);

 private:
  std::uint64_t wait_reasons_ = 0;
};

} // namespace fikit::tracking
