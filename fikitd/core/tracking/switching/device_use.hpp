// Which clients have work on a GPU, and when each one's work there last ended, by launches, grants and completions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "policy/base/clients.hpp"

namespace fikit::tracking {

// An instant that is known only within bounds: after since_ns, at until_ns at the latest.
struct Moment {
  std::int64_t since_ns = policy::kLongAgo;
  std::int64_t until_ns = policy::kLongAgo;
  // The instant is middle_ns() give or take half of width_ns().
  std::int64_t width_ns() const { return until_ns - since_ns; }
  std::int64_t middle_ns() const { return since_ns + width_ns() / 2; }
};

// From a client's first grant or launch on a device where it had no work, until all of its work there is complete.
struct Visit {
  std::int64_t began_ns = policy::kLongAgo;
  std::int64_t newest_ns = policy::kLongAgo; // its newest grant or launch
  Moment over; // its end; while it goes on, when work of the client was last known to have ended
};

struct Stay {
  policy::ClientId client = 0;
  int level = 0;      // the client's priority
  bool there = false; // the newest visit goes on
  Visit newest;
  Visit before;
};

class DeviceUse {
 public:
  void enter(Stay& stay) { stays_.push_back(&stay); }
  // The client leaves; it is not known when its work on the device ends.
  void leave(Stay& stay, std::int64_t now_ns) {
    std::erase(stays_, &stay);
    left_ns_ = std::max(left_ns_, now_ns);
  }
  const std::vector<Stay*>& stays() const { return stays_; }
  std::int64_t left_ns() const { return left_ns_; } // when a client last left

 private:
  std::vector<Stay*> stays_;
  std::int64_t left_ns_ = policy::kLongAgo;
};

} // namespace fikit::tracking
