// All clients' work on the device, as one queue: when is all of it done? A device that never stands still while there is work is
// done with it at the same time in whatever order it serves it. So launches add to what was there, and a client whose work is
// known to be complete takes away only its own: it says nothing of others' that came before it, in other streams.
#pragma once

#include <algorithm>
#include <cstdint>

#include "progress.hpp"

namespace fikit::policy {

// A client's work that is not known to be complete.
class Backlog {
 public:
  // Of the device, with what it needs between kernels in line.
  std::int64_t takes_ns() const { return takes_ns_; }

  void add(std::int64_t work_ns, std::int64_t in_line_ns) {
    work_ns_ = std::min(work_ns_ + work_ns, kHorizonNs);
    takes_ns_ = std::min(takes_ns_ + work_ns + in_line_ns, kHorizonNs);
  }
  // Of the predicted work no more than this is left.
  void at_most(std::int64_t work_ns) {
    if (work_ns >= work_ns_) return;
    const double share = static_cast<double>(work_ns) / static_cast<double>(work_ns_);
    takes_ns_ = static_cast<std::int64_t>(share * static_cast<double>(takes_ns_));
    work_ns_ = work_ns;
  }

 private:
  std::int64_t work_ns_ = 0; // of that: as predicted
  std::int64_t takes_ns_ = 0;
};

class Queue {
 public:
  // More of a client's, launched or granted at t_ns.
  void add(Backlog& backlog, std::int64_t t_ns, std::int64_t work_ns, std::int64_t in_line_ns = 0) {
    const std::int64_t work = std::clamp<std::int64_t>(work_ns, 0, kHorizonNs);
    known_ns_ -= backlog.takes_ns();
    backlog.add(work, in_line_ns);
    known_ns_ += backlog.takes_ns();
    free_ns_ = std::min(std::max(free_ns_, t_ns) + work + in_line_ns, t_ns + kHorizonNs);
  }
  // At t_ns no more than so much of a client's was left.
  void at_most(Backlog& backlog, std::int64_t t_ns, std::int64_t work_ns) {
    known_ns_ -= backlog.takes_ns();
    backlog.at_most(std::max<std::int64_t>(work_ns, 0));
    known_ns_ += backlog.takes_ns();
    free_ns_ = std::min(free_ns_, t_ns + known_ns_);
  }

  std::int64_t free_ns() const { return free_ns_; }

 private:
  std::int64_t known_ns_ = 0; // all backlogs
  std::int64_t free_ns_ = 0;
};

} // namespace fikit::policy
