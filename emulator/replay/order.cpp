#include "order.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace replay {
namespace {

constexpr int64_t kUs = 1000;
constexpr int64_t kPrompt = 3 * kUs;        // work that began later than this after its call and its stream's last waited
constexpr int64_t kRelease = 5 * kUs;       // and began so soon after what it waited for
constexpr int64_t kLongestCost = 30 * kUs;  // a call that takes longer waits
constexpr int64_t kRounding = 1 * kUs;      // times may be given in whole us
constexpr int64_t kLargestSkew = 50 * kUs;  // the recording's two clocks differ by no more

// The work that was issued so far, in the order of its ends.
class Ends {
 public:
  void add(const Event& event, int index) { ends_.emplace(event.end_ns(), std::pair{index, event.stream}); }

  bool any_after(int64_t t_ns) const { return ends_.upper_bound(t_ns) != ends_.end(); }

  // What ended last in [from_ns, to_ns], of another stream than this one.
  int last(int64_t from_ns, int64_t to_ns, int stream) const {
    for (auto next = ends_.upper_bound(to_ns); next != ends_.begin();) {
      --next;
      if (next->first < from_ns) break;
      if (next->second.second != stream) return next->second.first;
    }
    return kNothing;
  }

 private:
  std::multimap<int64_t, std::pair<int, int>> ends_;  // end -> (event, stream)
};

// By how much the device's clock is ahead: no synchronisation returned before all work was done, it seems.
int64_t skew_of(const Recording& recording) {
  int64_t skew = kLargestSkew;
  int64_t drained = 0;
  for (const Event& event : recording.events) {
    if (event.kind == EventKind::synchronize) {
      skew = std::min(skew, std::max<int64_t>(0, drained - event.call_end_ns()));
    } else {
      drained = std::max(drained, event.end_ns());
    }
  }
  return skew;
}

// The latest moment at which the call may have given its work to the device.
int64_t handed_over(const Event& event) {
  const bool waited = event.call_end_ns() >= event.end_ns();
  return event.host_ns + (waited ? std::min(event.call_ns, kLongestCost) : event.call_ns);
}

}  // namespace

Order order_between_streams(const Recording& recording, int64_t latency_ns) {
  Order order;
  order.after.resize(recording.events.size(), kNothing);
  order.from_host.resize(recording.events.size());
  order.idle.resize(recording.events.size());
  const int64_t skew = skew_of(recording);
  Ends ends;
  std::map<int, int64_t> stream_end;
  for (size_t i = 0; i < recording.events.size(); ++i) {
    const Event& event = recording.events[i];
    if (event.kind == EventKind::synchronize) {
      const int64_t returned_ns = event.call_end_ns() + skew;
      if (!ends.any_after(returned_ns)) continue;
      order.after[i] = ends.last(event.host_ns, returned_ns, kNothing);
      order.idle[i] = order.after[i] == kNothing;
      continue;
    }
    int64_t& end = stream_end.try_emplace(event.stream, 0).first->second;
    const int64_t waited_ns = event.start_ns - std::max(handed_over(event), end);
    if (waited_ns > kPrompt)
      order.after[i] = ends.last(event.start_ns - kRelease, event.start_ns + kRounding, event.stream);
    const bool too_late = order.after[i] != kNothing && waited_ns > latency_ns + kPrompt;
    order.from_host[i] = event.start_ns - end > kPrompt && !too_late;
    end = std::max(end, event.end_ns());
    ends.add(event, static_cast<int>(i));
  }
  return order;
}

}  // namespace replay
