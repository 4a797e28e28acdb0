// The order between streams, which no line of a recording says: programs make it by events, devices by what they have
// room for. It shows in when work began and when synchronisations returned.
#pragma once

#include <vector>

#include "recording.hpp"

namespace replay {

inline constexpr int kNothing = -1;

struct Order {
  // By event: the one that its work began after, or, for a synchronisation, that it waited for, although more was under
  // way. kNothing: there was no such thing.
  std::vector<int> after;
  // By event: work that began when nothing on the device had just made way for it: it came from the host just then.
  std::vector<bool> from_host;
  // By event: a synchronisation that returned while work was under way and none had ended: it waited for nothing.
  std::vector<bool> idle;
};

// `latency_ns`: from a launch to its start on a device that has nothing else to do.
Order order_between_streams(const Recording& recording, int64_t latency_ns);

}  // namespace replay
