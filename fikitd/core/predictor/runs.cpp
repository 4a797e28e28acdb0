#include "runs.hpp"

#include <algorithm>

namespace fikit::predictor {

std::uint64_t Runs::place(Identity identity) const {
  std::uint64_t hash = identity;
  for (const Identity before : context_.last) {
    hash = (hash ^ before) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 29;
  }
  return hash;
}

// Where the same four kernels have been followed by different ones, the shorter run and the longer work are expected: what
// is seen again and again wins in time.
void Runs::see(Launches& known, const Launches& seen) {
  known.launches = seen.launches <= known.launches ? seen.launches : known.launches + 1;
  known.work_ns = std::max(seen.work_ns, known.work_ns - known.work_ns / 4);
}

void Runs::end_oldest(Kind& kind) {
  const Begun& oldest = begun(kind.oldest);
  const Launches seen{.launches = static_cast<std::uint32_t>(launches_ - kind.oldest), .work_ns = work_ns_ - oldest.before_ns};
  ++kind.oldest;
  auto it = known_.find(oldest.place);
  const bool first = it == known_.end();
  if (first) {
    if (known_.size() >= kMaxPlaces || !claim_.more(kPlaceBytes)) return;
    it = known_.try_emplace(oldest.place).first;
  }
  Known& known = it->second;
  Launches& run = &kind == &run_ ? known.run : known.long_run;
  if (first || run.launches == 0) run = seen;
  else see(run, seen);
  if (&kind == &run_) known.seen = std::min(known.seen + 1, 2U);
}

// What is launched next is over at end_ns of the work.
void Runs::end_those_before(Kind& kind, std::int64_t end_ns) {
  while (kind.oldest < launches_ && (launches_ - kind.oldest == kind.most || end_ns - begun(kind.oldest).before_ns > kind.most_ns))
    end_oldest(kind);
}

void Runs::launched(Identity identity, std::int64_t duration_ns) {
  if (duration_ns < 0) {
    waited();
  } else {
    const std::int64_t end_ns = work_ns_ + duration_ns;
    end_those_before(run_, end_ns);
    end_those_before(long_run_, end_ns);
    begun(launches_++) = {.place = place(identity), .before_ns = work_ns_};
    work_ns_ = end_ns;
  }
  context_.push(identity);
}

void Runs::waited() {
  while (run_.oldest < launches_) end_oldest(run_);
  while (long_run_.oldest < launches_) end_oldest(long_run_);
  work_ns_ = 0;
}

Ahead Runs::starting(Identity identity, std::int64_t duration_ns) const {
  const Launches alone{.launches = 1, .work_ns = duration_ns};
  const auto it = duration_ns < 0 ? known_.end() : known_.find(place(identity));
  if (it == known_.end()) return {.run = alone, .long_run = alone};
  const auto of = [duration_ns](const Kind& kind, const Launches& known, const Launches& otherwise) {
    if (known.launches <= otherwise.launches || duration_ns > kind.most_ns) return otherwise;
    return Launches{.launches = known.launches, .work_ns = std::clamp(known.work_ns, duration_ns, kind.most_ns)};
  };
  const Launches run = of(run_, it->second.run, alone);
  return {.run = run, .long_run = of(long_run_, it->second.long_run, run)};
}

void Runs::expect(const RunsLearnt& before) {
  for (const auto& [place, run] : before) {
    if (known_.contains(place)) continue;
    if (known_.size() == kMaxPlaces || !claim_.more(kPlaceBytes)) return;
    const Launches bounded{.launches = std::clamp<std::uint32_t>(run.launches, 1, kRunLimit.launches),
                           .work_ns = std::clamp<std::int64_t>(run.work_ns, 0, run_.most_ns)};
    known_.emplace(place, Known{.run = bounded, .seen = 0});
  }
}

void Runs::forget_long_runs() {
  for (auto& [place, known] : known_) known.long_run.launches = 0;
  long_run_.oldest = launches_;
}

RunsLearnt Runs::learnt() const {
  RunsLearnt learnt;
  for (const auto& [place, known] : known_)
    if (known.seen > 1) learnt.emplace_back(place, known.run);
  std::sort(learnt.begin(), learnt.end(), [](const auto& a, const auto& b) {
    return a.second.launches != b.second.launches ? a.second.launches > b.second.launches : a.first < b.first;
  });
  if (learnt.size() > kMaxLearnt) learnt.resize(kMaxLearnt);
  return learnt;
}

} // namespace fikit::predictor
