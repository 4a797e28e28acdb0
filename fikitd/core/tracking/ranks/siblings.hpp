// State that the processes of one job on one GPU have in common. Used by that GPU's dispatcher thread only.
#pragma once

#include <cstdint>

#include "gang.hpp"
#include "policy/base/reason.hpp"
#include "tracking/accounting/time_account.hpp"

namespace fikit::tracking {

struct Siblings {
  explicit Siblings(std::int64_t lease_ns) : exemption(lease_ns) {}

  Exemption exemption;
  JobWork reckoned;            // their work, as on a GPU without other jobs
  std::uint64_t kernels = 0;   // their part of Traffic::kernels
  std::uint64_t under_way = 0; // their part of Traffic::under_way
  double work_ns = 0; // predicted work of all their launches: the job needs at least so long alone

  // Measured processes take turns, each alone on the device: a CUDA event tells when a kernel ended, but not whether another process's
  // kernel ran before it.
  struct Turn {
    policy::ClientId holder = 0; // the client whose gate is open, or was opened last
    bool ends = false;           // its gate is closed, and its work is not complete yet
    std::int64_t since_ns = 0;   // when the turn began, or began to end
  } turn;
};

} // namespace fikit::tracking
