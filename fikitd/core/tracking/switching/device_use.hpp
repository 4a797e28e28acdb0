// Whose work is on a GPU, and when whose was last over there, as far as launches, grants and completions tell.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "policy/base/clients.hpp"

namespace fikit::tracking {

// Something became true after since_ns, and was so at until_ns.
struct Moment {
  std::int64_t since_ns = policy::kLongAgo;
  std::int64_t until_ns = policy::kLongAgo;
  // Nobody is sure of more than the middle, give or take half of this.
  std::int64_t width_ns() const { return until_ns - since_ns; }
  std::int64_t middle_ns() const { return since_ns + width_ns() / 2; }
};

// From a client's first grant or launch on a device where it had nothing, until all of that is over.
struct Visit {
  std::int64_t began_ns = policy::kLongAgo;
  std::int64_t newest_ns = policy::kLongAgo; // grant or launch
  Moment over; // its end; while it goes on, the newest moment at which some of the client's work was over
};

struct Stay {
  policy::ClientId client = 0;
  int level = 0;      // of its priority
  bool there = false; // the newest visit goes on
  Visit newest;
  Visit before;
};

class DeviceUse {
 public:
  void enter(Stay& stay) { stays_.push_back(&stay); }
  // Nobody knows when what the client has there is over.
  void leave(Stay& stay, std::int64_t now_ns) {
    std::erase(stays_, &stay);
    left_ns_ = std::max(left_ns_, now_ns);
  }
  const std::vector<Stay*>& stays() const { return stays_; }
  std::int64_t left_ns() const { return left_ns_; } // a client last left then

 private:
  std::vector<Stay*> stays_;
  std::int64_t left_ns_ = policy::kLongAgo;
};

} // namespace fikit::tracking
