#include "rhythm.hpp"

#include <algorithm>
#include <cmath>

namespace fikit::predictor {
namespace {

constexpr std::uint64_t kStart = 0x243f6a8885a308d3U;
constexpr std::int64_t kLongIdleShare = 8; // and at least 1/8 of the segment before it

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 29);
}

} // namespace

void Rhythm::begin(std::int64_t t_ns) {
  const auto before = segments_.find(last_path_);
  if (before != segments_.end()) {
    before->second.idle.add(t_ns - waited_ns_);
    before->second.idle_here.add(t_ns - waited_ns_);
  }
  path_ = kStart;
}

Foretold Rhythm::launched(std::int64_t t_ns, Identity identity, std::int64_t duration_ns, std::int64_t in_line_ns) {
  if (segment_.launches() == 0) begin(t_ns);
  segment_.launched(t_ns, duration_ns, in_line_ns);
  path_ = mix(path_, identity);
  context_.push(identity);
  std::uint64_t nearby = ~kStart;
  for (const Identity before : context_.last) nearby = mix(nearby, before);
  if (marks_.size() < kMaxLaunches) marks_.push_back({path_, nearby, segment_.dry_ns(), segment_.work_ns()});
  return {.slack = slack_at(nearby), .dry_ns = segment_.dry_ns()};
}

TimeQuantiles Rhythm::slack_at(std::uint64_t nearby) const {
  for (const std::uint64_t key : {path_, nearby}) {
    const auto it = positions_.find(key);
    if (it != positions_.end()) return it->second.times();
  }
  return {};
}

void Rhythm::learn_at(std::uint64_t position, std::int64_t slack_ns) {
  if (Recent* known = this->position(position)) known->add(slack_ns);
}

Recent* Rhythm::position(std::uint64_t key) {
  const auto it = positions_.find(key);
  if (it != positions_.end()) return &it->second;
  constexpr std::size_t kBytes = sizeof(*it) + 4 * sizeof(void*); // and its node's and its bucket's pointers
  return positions_.size() < kMaxPositions && claim_.more(kBytes) ? &positions_[key] : nullptr;
}

Rhythm::Segment* Rhythm::segment(std::uint64_t path) {
  const auto it = segments_.find(path);
  if (it != segments_.end()) return &it->second;
  constexpr std::size_t kBytes = sizeof(*it) + 1024; // and what it expects, as a histogram
  return segments_.size() < kMaxSegments && claim_.more(kBytes) ? &segments_[path] : nullptr;
}

void Rhythm::learn(std::int64_t end_ns, std::int64_t began_ns) {
  for (const Mark& mark : marks_) {
    const std::int64_t slack_ns = std::max<std::int64_t>(0, end_ns - mark.dry_ns - (segment_.work_ns() - mark.work_ns));
    learn_at(mark.path, slack_ns);
    learn_at(mark.nearby, slack_ns);
  }
  if (Segment* segment = this->segment(path_)) {
    segment->span.add(end_ns - segment_.first_ns());
    segment->tail.add(end_ns - segment_.last_ns());
    if (began_ns != kLongAgo) segment->after.add(end_ns - std::max(segment_.dry_ns(), began_ns));
  }
  const auto before = segments_.find(last_path_);
  if (before != segments_.end())
    before->second.next_slack.add(std::max<std::int64_t>(0, end_ns - segment_.first_ns() - segment_.work_ns()));
}

Pause Rhythm::waited(std::int64_t t_ns, bool alone, std::int64_t began_ns) {
  if (segment_.launches() == 0) return pause();
  const auto before = segments_.find(last_path_);
  if (alone && before != segments_.end()) before->second.idle_alone.add(segment_.first_ns() - waited_ns_);
  if (alone && segment_.exact()) learn(t_ns, began_ns);
  last_path_ = path_;
  waited_ns_ = t_ns;
  marks_.clear();
  Pause pause = this->pause();
  pause.end_ns = segment_.wait_end_ns(began_ns, pause.after_ns, pause.tail_ns);
  segment_.waited();
  return pause;
}

Pause Rhythm::pause() const {
  Pause pause;
  const auto it = segments_.find(last_path_);
  if (it == segments_.end()) return pause;
  const Segment& segment = it->second;
  if (segment.span.known()) {
    pause.span_ns = segment.span.times().ns.back();
    pause.tail_ns = segment.tail.times().low_ns();
  }
  if (segment.after.known()) pause.after_ns = segment.after.times().ns[TimeQuantiles::kCount / 2];
  pause.slack = segment.next_slack.times();
  if (segment.idle_alone.known()) pause.alone_idle = segment.idle_alone.times();
  if (segment.idle.count() == 0) return pause;
  for (std::size_t i = 0; i < TimeQuantiles::kCount; ++i)
    pause.idle.ns[i] = std::llround(segment.idle.quantile_ns(TimeQuantiles::share(i)));
  // A launch follows at once that comes so soon after the wait, or within a quarter more than nearly always.
  const std::int64_t at_once_ns = std::max(TimeQuantiles::kAtOnceNs, pause.idle.ns.front() + pause.idle.ns.front() / 4);
  const std::int64_t long_ns = std::max({long_idle_ns_, pause.span_ns / kLongIdleShare, 2 * at_once_ns});
  pause.open = pause.idle.ns.back() > long_ns;
  return pause;
}

TimeQuantiles Rhythm::any_slack() const {
  std::optional<TimeQuantiles> least;
  for (const auto& [path, segment] : segments_) {
    if (!segment.next_slack.known()) continue;
    const TimeQuantiles times = segment.next_slack.times();
    if (!least) least = times;
    std::ranges::transform(least->ns, times.ns, least->ns.begin(), [](std::int64_t a, std::int64_t b) { return std::min(a, b); });
  }
  return least.value_or(TimeQuantiles{});
}

void Rhythm::expect(const RhythmLearnt& before) {
  for (const auto& [position, sketch] : before.slacks)
    if (Recent* known = this->position(position)) known->expect(sketch);
  for (const auto& [path, sketch] : before.segments) {
    Segment* known = this->segment(path);
    if (known == nullptr) continue;
    Segment& segment = *known;
    segment.span.expect(sketch.span);
    segment.tail.expect(sketch.tail);
    segment.after.expect(sketch.after, -kMaxNs);
    segment.next_slack.expect(sketch.next_slack);
    segment.idle_alone.expect(sketch.idle);
    if (segment.idle.count() > 0) continue;
    segment.idle_here.expect(sketch.idle);
    if (segment.idle_here.known())
      for (const std::int64_t ns : segment.idle_here.times().ns) segment.idle.add(ns);
  }
}

RhythmLearnt Rhythm::learnt() const {
  RhythmLearnt learnt;
  for (const auto& [position, slacks] : positions_)
    if (slacks.confirmed()) learnt.slacks.emplace_back(position, slacks.sketch());
  std::sort(learnt.slacks.begin(), learnt.slacks.end(), [](const auto& a, const auto& b) {
    return a.second.count != b.second.count ? a.second.count > b.second.count : a.first < b.first;
  });
  if (learnt.slacks.size() > kMaxLearnt) learnt.slacks.resize(kMaxLearnt);
  for (const auto& [path, segment] : segments_)
    if (segment.span.confirmed() || segment.idle_here.confirmed())
      learnt.segments.emplace_back(path, RhythmLearnt::Segment{.span = segment.span.sketch(),
                                                               .tail = segment.tail.sketch(),
                                                               .after = segment.after.sketch(),
                                                               .next_slack = segment.next_slack.sketch(),
                                                               .idle = segment.idle_here.sketch()});
  std::sort(learnt.segments.begin(), learnt.segments.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return learnt;
}

} // namespace fikit::predictor
