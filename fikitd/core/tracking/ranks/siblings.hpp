// What the processes of one job that share a GPU have to do with each other there. Of its dispatcher's thread.
#pragma once

#include <cstdint>

#include "gang.hpp"
#include "policy/base/reason.hpp"
#include "tracking/accounting/time_account.hpp"

namespace fikit::tracking {

struct Siblings {
  explicit Siblings(std::int64_t lease_ns) : exemption(lease_ns) {}

  Exemption exemption;
  JobWork reckoned;            // of all of them, as on a device of their own
  std::uint64_t kernels = 0;   // their part of the GPU's traffic
  std::uint64_t under_way = 0; // the same
  double work_ns = 0; // of all that they launched, as predicted: alone together they need so long at least

  // Those that are measured take turns, each alone on the device for a while: an event says when a kernel ended, and not that
  // another process's came before it.
  struct Turn {
    policy::ClientId holder = 0; // whose gate is open, or was opened last
    bool ends = false;           // its gate is closed, and what it launched is not over
    std::int64_t since_ns = 0;   // it began, or began to end
  } turn;
};

} // namespace fikit::tracking
