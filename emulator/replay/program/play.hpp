// A host lives through a plan on a target: once, or again and again as a job whose requests arrive.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "target.hpp"

namespace replay {

// Plays the plan to its end and returns the span on the device.
int64_t play(const Plan& plan, Target& target);

// In ns since the job began.
struct Request {
  int64_t arrival_ns = 0;
  int64_t end_ns = 0;
};

struct Requests {
  size_t count = 0;  // 0: no end
  // When each arrives, `count` of them; empty: each follows the end of the one before it (closed loop).
  std::vector<int64_t> arrivals;
};

// Lives through the requests, one pass each, and waits for all work at the end of each. Those that had ended when `stopped`
// became true are returned; the job ends before its next call then.
std::vector<Request> live(const Plan& pass, Target& target, const Requests& requests, const std::atomic<bool>& stopped);

}  // namespace replay
