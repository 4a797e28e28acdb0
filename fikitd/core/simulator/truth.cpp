#include "truth.hpp"

#include <algorithm>

#include "job.hpp"
#include "predictor/segment_alone.hpp"

namespace fikit::simulator {
namespace {

// From one wait to the next.
struct Segment {
  std::vector<Deed> launches;
  std::int64_t end_ns = 0;
  std::int64_t began_ns = 0; // the wait
  std::int64_t dry_ns = 0;   // the work is over
};

// Fills in the segment's launches; returns its slack at the first one.
std::int64_t follow(const Trace& trace, Segment& segment, Truth& truth) {
  const std::int64_t first_ns = segment.launches.front().t_ns;
  predictor::SegmentAlone alone;
  std::vector<std::int64_t> spare_ns; // what the device has been idle, less than in the end
  for (const Deed& launch : segment.launches) {
    alone.launched(launch.t_ns, trace.plan().steps[launch.step].event->duration_ns, trace.plan().kernel_gap_ns);
    spare_ns.push_back(alone.dry_ns() - alone.work_ns());
  }
  segment.dry_ns = alone.dry_ns();
  for (std::size_t i = 0; i < segment.launches.size(); ++i)
    truth.launches[segment.launches[i].step].slack_ns =
        std::max<std::int64_t>(0, segment.end_ns - alone.work_ns() - spare_ns[i]);
  return std::max<std::int64_t>(0, segment.end_ns - first_ns - alone.work_ns());
}

} // namespace

Truth truth_of(const Trace& trace, const std::vector<Deed>& deeds) {
  Truth truth;
  truth.launches.resize(trace.plan().steps.size());
  Segment segment;
  Truth::Launch* before = nullptr;
  std::int64_t before_end_ns = 0;
  for (const Deed& deed : deeds) {
    if (!deed.wait) segment.launches.push_back(deed);
    if (!deed.wait || segment.launches.empty()) continue;
    segment.end_ns = deed.t_ns;
    segment.began_ns = deed.began_ns;
    const std::int64_t slack_ns = follow(trace, segment, truth);
    if (before != nullptr) {
      before->next_slack_ns = slack_ns;
      before->idle_ns = segment.launches.front().t_ns - before_end_ns;
    }
    before = &truth.launches[segment.launches.back().step];
    before->span_ns = deed.t_ns - segment.launches.front().t_ns;
    before->tail_ns = deed.t_ns - segment.launches.back().t_ns;
    before->after_ns = std::max<std::int64_t>(0, deed.t_ns - std::max(segment.dry_ns, segment.began_ns));
    before_end_ns = deed.t_ns;
    segment.launches.clear();
  }
  return truth;
}

} // namespace fikit::simulator
