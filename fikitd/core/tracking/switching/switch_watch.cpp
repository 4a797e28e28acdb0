#include "switch_watch.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace fikit::tracking {
namespace {

// Fractions of a turn. Times that are known less exactly than this measure no switch. (While a launch waits, the dispatcher looks at its
// pages more often.)
constexpr double kSure = .045;
// The same for the end of earlier work that was followed at once: an error of its middle would always have the same sign.
constexpr double kEdge = .012;
// Longer work may be interrupted by the turn of a client that came meanwhile;
constexpr double kShort = 0.6;
// and a client that has waited behind another one's work for longer than this may have had a turn in between.
constexpr double kQueued = 0.4;

std::int64_t part_of(const SwitchMeter& meter, double part) { return std::llround(part * meter.turn_ns()); }

} // namespace

SwitchWatch::SwitchWatch(policy::ClientId client, int level, bool overlaps, DeviceUse& use, SwitchMeter& meter)
    : use_(use), meter_(meter), stay_{.client = client, .level = level, .newest = {}, .before = {}}, overlaps_(overlaps),
      sure_ns_(part_of(meter, kSure)), edge_ns_(part_of(meter, kEdge)), short_ns_(part_of(meter, kShort)),
      queued_ns_(part_of(meter, kQueued)) {
  use_.enter(stay_);
}

void SwitchWatch::begin(std::int64_t t_ns) {
  if (!stay_.there) {
    stay_.there = true;
    stay_.before = stay_.newest;
    stay_.newest.began_ns = t_ns;
  }
  stay_.newest.newest_ns = t_ns;
}

void SwitchWatch::granted(std::int64_t now_ns) { begin(now_ns); }

void SwitchWatch::launched(std::uint64_t number, std::uint32_t request, std::int64_t t_ns,
                           const predictor::DurationPrediction& predicted) {
  begin(t_ns);
  if (count_ == kKept) {
    std::copy(launches_.begin() + 1, launches_.end(), launches_.begin());
    --count_;
    partly_ = true;
  }
  launches_[count_++] = {.number = number,
                         .request = request,
                         .t_ns = t_ns,
                         .duration_ns = predicted.duration_mean_ns,
                         .spread_ns = predicted.duration_high_ns - predicted.duration_ns};
}

void SwitchWatch::complete(std::uint64_t number, bool all, const Moment& when) {
  std::size_t count = 0;
  while (count < count_ && launches_[count].number <= number) ++count;
  drop(count, all, when);
}

void SwitchWatch::grant_complete(std::uint32_t request, bool all, const Moment& when) {
  std::size_t count = count_;
  while (count > 0 && launches_[count - 1].request != request) --count;
  drop(count, all, when);
}

void SwitchWatch::leave(std::int64_t now_ns) {
  if (!entered_) return;
  entered_ = false;
  use_.leave(stay_, now_ns);
}

// The oldest `count` launches are complete.
void SwitchWatch::drop(std::size_t count, bool all, const Moment& when) {
  const std::int64_t launched_ns = count > 0 ? launches_[count - 1].t_ns : stay_.newest.began_ns;
  const Moment seen{.since_ns = copied_ ? launched_ns : std::max(when.since_ns, launched_ns), .until_ns = when.until_ns};
  if (count > 0 && !partly_ && !copied_ && !overlaps_ && entered_) look(count, seen);
  partly_ = partly_ && count == 0;
  std::copy(launches_.begin() + static_cast<std::ptrdiff_t>(count), launches_.begin() + static_cast<std::ptrdiff_t>(count_),
            launches_.begin());
  count_ -= count;
  if (count > 0 || (all && stay_.there)) stay_.newest.over = seen;
  if (!all) return;
  stay_.there = partly_ = copied_ = false;
  count_ = 0;
}

// When the other clients' work ended that ran before the work launched at from_ns and complete at `end`. Empty: not known.
std::optional<Moment> SwitchWatch::others_end(std::int64_t from_ns, const Moment& end, int& level) const {
  Moment last;
  for (const Stay* other : use_.stays()) {
    if (other == &stay_) continue;
    // A client that came after this work was launched runs after it, unless it has waited for longer than a slice.
    if (other->there && (other->newest.began_ns < from_ns || end.until_ns - other->newest.began_ns > queued_ns_)) return std::nullopt;
    const Visit& visit = other->there ? other->before : other->newest;
    if (visit.newest_ns > from_ns || visit.over.until_ns > end.until_ns) return std::nullopt; // it may have run in between
    if (visit.over.until_ns <= last.until_ns) continue;
    last = visit.over;
    level = other->level;
  }
  return last;
}

void SwitchWatch::look(std::size_t count, const Moment& end) {
  const Moment& own = stay_.newest.over;
  const std::int64_t t_ns = launches_[0].t_ns;
  if (end.width_ns() > sure_ns_ || own.until_ns <= use_.left_ns()) return;
  int level = 0;
  const std::optional<Moment> others = others_end(t_ns, end, level);
  if (!others) return;
  const bool kept = others->until_ns <= own.since_ns;
  if (!kept && own.until_ns > others->since_ns) return; // it is not known whose work was last
  const Moment& before = kept ? own : *others;
  const bool idle = t_ns >= before.until_ns; // the device was, at the launch
  if (!idle && (t_ns > before.since_ns || before.width_ns() > edge_ns_)) return;
  // Its own earlier work may have ended in the rest of a turn, before the others' turn.
  if (!kept && !idle && own.until_ns > t_ns) return;
  if (!kept && before.until_ns - t_ns > queued_ns_) return;
  const std::int64_t begin_ns = idle ? t_ns : before.middle_ns();
  std::int64_t work_ns = 0;
  double variance = 0;
  for (const Launch& launch : std::span(launches_).first(count)) {
    if (launch.duration_ns < 0) return;
    if (launch.t_ns > begin_ns + work_ns && work_ns > 0) return; // the device may have been idle in between, and hide a switch there
    work_ns += launch.duration_ns;
    variance += static_cast<double>(launch.spread_ns) * static_cast<double>(launch.spread_ns);
  }
  const double unsure_ns = std::sqrt(variance) + static_cast<double>(end.width_ns() + (idle ? 0 : before.width_ns())) / 2;
  if (work_ns > short_ns_ || unsure_ns > static_cast<double>(sure_ns_)) return;
  meter_.began({.client = stay_.client,
                .level = kept ? stay_.level : std::max(stay_.level, level),
                .own_level = stay_.level,
                .changed = !kept,
                .idle = idle,
                .late_ns = end.middle_ns() - begin_ns - work_ns});
}

} // namespace fikit::tracking
