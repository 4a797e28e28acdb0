// The replay rule. Its core is stated with the recorded traces: think time is the gap between two host calls, a call
// costs what it took but at most 30 us (longer ones are back-pressure of a full queue), work starts a launch latency
// after its call (2nd percentile of the recording, at most 12 us) or when its stream's previous work ends, a pageable
// device-to-host copy and a copy whose call took over 200 us make the host wait.
//
// Where the recording itself shows that one of these does not hold, the recording is followed:
//  * a long call on a device that had nothing to do cannot be back-pressure: it is the host's own time (a module loaded
//    at its first launch, pageable memory staged), and the work came to the device late in it;
//  * a long copy call that returned before its copy began did not wait for it, but for room in the queue;
//  * a call that waited while other threads called on held its own thread only;
//  * work that waited in line did not start at the end of its predecessor but a little later: the median of that gap;
//  * work that began late, just when work of another stream had ended, had waited for it, and a synchronisation that
//    returned while work was under way had waited for what had ended (order.cpp);
//  * a synchronisation returns a little after the device has drained.
#include "plan.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "order.hpp"

namespace replay {
namespace {

constexpr int64_t kUs = 1000;
constexpr int64_t kLongestCost = 30 * kUs;
constexpr int64_t kLongestLatency = 12 * kUs;
constexpr int64_t kWaitingCopy = 200 * kUs;
constexpr int64_t kLongestGap = 5 * kUs;
constexpr size_t kEnoughGaps = 16;  // fewer say little, and matter little

bool is_work(const Event& event) { return event.kind != EventKind::synchronize; }

int64_t launch_latency(const Recording& recording) {
  std::vector<int64_t> latencies;
  for (const Event& event : recording.events) {
    if (is_work(event)) latencies.push_back(event.start_ns - event.host_ns);
  }
  const auto low = latencies.begin() + static_cast<ptrdiff_t>(latencies.size() / 50);
  std::nth_element(latencies.begin(), low, latencies.end());
  return std::clamp<int64_t>(*low, 0, kLongestLatency);
}

int64_t kernel_gap(const Recording& recording, const Order& order, int64_t latency) {
  std::map<int, int64_t> stream_end;
  std::vector<int64_t> gaps;
  for (size_t i = 0; i < recording.events.size(); ++i) {
    const Event& event = recording.events[i];
    if (!is_work(event)) continue;
    const auto [end, first] = stream_end.try_emplace(event.stream, event.end_ns());
    if (first) continue;
    if (const int before = order.after[i]; before != kNothing)
      gaps.push_back(event.start_ns - recording.events[static_cast<size_t>(before)].end_ns());
    else if (end->second > (event.call_end_ns() < event.end_ns() ? event.call_end_ns() : event.host_ns) + latency)
      gaps.push_back(event.start_ns - end->second);
    end->second = std::max(end->second, event.end_ns());
  }
  if (gaps.size() < kEnoughGaps) return 0;
  const auto middle = gaps.begin() + static_cast<ptrdiff_t>(gaps.size() / 2);
  std::nth_element(gaps.begin(), middle, gaps.end());
  return std::clamp<int64_t>(*middle, 0, kLongestGap);
}

// Whether the copies of one direction shared an engine: then hardly any two of them ran at the same time.
bool queued(const Recording& recording, EventKind direction) {
  std::vector<std::pair<int64_t, int64_t>> spans;
  for (const Event& event : recording.events) {
    if (event.kind == direction) spans.emplace_back(event.start_ns, event.end_ns());
  }
  std::sort(spans.begin(), spans.end());
  int64_t until = std::numeric_limits<int64_t>::min();
  int64_t shared = 0;
  int64_t total = 0;
  for (const auto& [start, end] : spans) {
    if (until > start) shared += std::min(until, end) - start;
    total += end - start;
    until = std::max(until, end);
  }
  return shared <= total / 20;
}

bool makes_host_wait(const Event& event, const std::string& name) {
  if (event.kind == EventKind::synchronize) return true;
  if (event.kind == EventKind::kernel) return false;
  const bool pageable_read = event.kind == EventKind::copy_to_host && name.find("Pageable") != std::string::npos;
  return pageable_read || (event.call_ns > kWaitingCopy && event.call_end_ns() >= event.start_ns);
}

// For each event: does its call last into one of another thread? Events are in host order.
std::vector<bool> overlapped(const Recording& recording) {
  constexpr int64_t kLate = std::numeric_limits<int64_t>::max();
  const std::vector<Event>& events = recording.events;
  std::vector<bool> found(events.size());
  int64_t next = kLate;  // the next call after event i...
  int thread = -1;       // ...by this thread...
  int64_t other = kLate;  // ...and the next one by any other
  for (size_t i = events.size(); i-- > 0;) {
    const Event& event = events[i];
    found[i] = event.call_end_ns() > (event.thread == thread ? other : next);
    if (event.thread != thread) other = next;
    next = event.host_ns;
    thread = event.thread;
  }
  return found;
}

}  // namespace

Plan make_plan(const Recording& recording, Waiting waiting) {
  Plan plan;
  plan.launch_latency_ns = launch_latency(recording);
  const Order order = order_between_streams(recording, plan.launch_latency_ns);
  plan.kernel_gap_ns = kernel_gap(recording, order, plan.launch_latency_ns);
  plan.uploads_queue = queued(recording, EventKind::copy_to_device);
  plan.downloads_queue = queued(recording, EventKind::copy_to_host);
  plan.steps.reserve(recording.events.size());
  int marks = 0;
  int64_t called_until = recording.events.front().host_ns;
  int64_t drained = 0;  // end of all work called so far, in the recording
  const std::vector<bool> beside_others =
      waiting == Waiting::own_thread ? overlapped(recording) : std::vector<bool>(recording.events.size());
  std::map<int, const Step*> joined_by;  // by thread: the call that its next one joins
  for (const Event& event : recording.events) {
    Step step{};
    step.event = &event;
    step.mark = step.joins = step.number = step.behind = -1;
    const int before = order.after[plan.steps.size()];
    if (before != kNothing) {
      int& number = plan.steps[static_cast<size_t>(before)].number;
      if (number < 0) number = plan.numbers++;
      step.behind = number;
    }
    if (const auto joined = joined_by.find(event.thread); joined != joined_by.end()) {
      const Step& before = *joined->second;
      step.joins = before.mark;
      step.joins_after_ns = before.tail_ns + std::max<int64_t>(0, event.host_ns - before.event->call_end_ns());
      joined_by.erase(joined);
    }
    step.think_ns = std::max<int64_t>(0, event.host_ns - called_until);
    step.waits = !order.idle[plan.steps.size()] &&
                 makes_host_wait(event, recording.names[static_cast<size_t>(event.name)]);
    // Of calls of several threads at once, only what one adds to those before it.
    const int64_t added = std::max<int64_t>(0, event.call_end_ns() - std::max(event.host_ns, called_until));
    step.cost_ns = std::min({event.call_ns, kLongestCost, added});
    if (is_work(event) && event.call_ns > kLongestCost && drained <= event.host_ns) step.cost_ns = added;
    if (order.from_host[plan.steps.size()])
      step.delay_ns = std::clamp<int64_t>(event.start_ns - event.host_ns - plan.launch_latency_ns, 0, step.cost_ns);
    drained = std::max(drained, is_work(event) ? event.end_ns() : 0);
    if (order.idle[plan.steps.size()]) step.cost_ns = added;
    if (step.waits) {
      const int64_t awaited = is_work(event)       ? event.end_ns()
                              : before != kNothing ? plan.steps[static_cast<size_t>(before)].event->end_ns()
                                                   : drained;
      const int64_t free = std::max(event.host_ns, awaited);
      step.tail_ns = std::clamp<int64_t>(event.call_end_ns() - free, 0, kLongestCost);
      step.cost_ns = step.delay_ns;
    }
    if (step.waits && beside_others[plan.steps.size()]) step.mark = marks++;
    called_until = std::max(called_until, step.mark < 0 ? event.call_end_ns() : event.host_ns + step.cost_ns);
    plan.steps.push_back(step);  // never moves: there is room for all
    if (step.mark >= 0) joined_by[event.thread] = &plan.steps.back();
  }
  std::map<int, Step*> last;
  for (Step& step : plan.steps) {
    if (is_work(*step.event)) last[step.event->stream] = &step;
  }
  for (auto& [stream, step] : last) step->last = true;
  return plan;
}

}  // namespace replay
